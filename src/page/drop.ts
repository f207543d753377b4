/** Dropped or chosen files and folders, with their paths. */

/** Files, with their paths below the dropped folder. */
export type Files = readonly (readonly [path: string, file: File])[];

/** The files of an `<input type="file">`; of a folder, with paths below it. */
export function chosenFiles(files: FileList): Files {
  return Array.from(files, (file) => {
    const path = file.webkitRelativePath;
    // The folder may be an archive itself or a folder of archives, so its own name is kept.
    return [path === "" ? file.name : path, file] as const;
  });
}

/** The dropped files, and folders with everything in them. */
export async function droppedFiles(transfer: DataTransfer): Promise<Files> {
  // The items can only be read during the event.
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
  // A reader returns a hundred entries at a time.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) return;
    for (const each of some) await walk(each, found);
  }
}
