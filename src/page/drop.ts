/** Files and folders that are dropped or chosen, with their paths. */

/** Files with their paths below what was dropped. */
export type Files = readonly (readonly [path: string, file: File])[];

/** What an `<input type="file">` holds; of a folder, with paths below it. */
export function chosenFiles(files: FileList): Files {
  return Array.from(files, (file) => {
    const path = file.webkitRelativePath;
    // An archive's folder is chosen for itself as often as a folder of archives: its own name stays.
    return [path === "" ? file.name : path, file] as const;
  });
}

/** What was dropped: files, and folders with all that is in them. */
export async function droppedFiles(transfer: DataTransfer): Promise<Files> {
  // Only until the event is over do the items say what they are.
  const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry());
  const plain = Array.from(transfer.files);
  const found: (readonly [string, File])[] = [];
  for (const entry of entries) if (entry !== null) await walk(entry, found);
  return found.length > 0 ? found : plain.map((file) => [file.name, file] as const);
}

async function walk(entry: FileSystemEntry, found: (readonly [string, File])[]): Promise<void> {
  const path = entry.fullPath.replace(/^\//, "");
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    );
    found.push([path, file]);
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A reader gives a hundred at a time.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return;
    for (const each of some) await walk(each, found);
  }
}
