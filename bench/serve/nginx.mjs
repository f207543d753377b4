/** nginx over one folder, on any free port of loopback, with one process like `serve`, and without logging. */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Starts nginx; undefined if it is not installed. */
export async function startNginx(folder) {
  const path = `${process.env.PATH ?? ""}:/usr/sbin:/usr/local/sbin`;
  const env = { ...process.env, PATH: path };
  const found = spawnSync("nginx", ["-v"], { env });
  if (found.error !== undefined) return undefined;
  const version = /nginx\/[\d.]+/.exec(found.stderr.toString())?.[0] ?? "nginx";
  const port = await freePort();
  const home = mkdtempSync(join(tmpdir(), "superchunk-nginx-"));
  const places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `  ${name}_temp_path ${home}/${name};`)
    .join("\n");
  writeFileSync(
    join(home, "nginx.conf"),
    `${process.getuid?.() === 0 ? "user root;\n" : ""}daemon off;
worker_processes 1;
pid ${home}/pid;
error_log ${home}/error.log;
events { worker_connections 64; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 100000;
${places}
  server { listen 127.0.0.1:${port}; location / { root ${folder}; } }
}
`,
  );
  const child = spawn("nginx", ["-p", home, "-c", join(home, "nginx.conf")], { env, stdio: "ignore" });
  const url = `http://127.0.0.1:${port}/`;
  const ended = new Promise((resolve) => child.once("exit", resolve));
  await untilAnswers(url, child);
  return {
    url,
    version,
    async stop() {
      child.kill("SIGQUIT");
      await ended;
      rmSync(home, { recursive: true, force: true });
    },
  };
}

async function untilAnswers(url, child) {
  for (let tries = 0; child.exitCode === null && tries < 100; tries++) {
    try {
      await fetch(url, { method: "HEAD" });
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  throw new Error("nginx does not answer");
}

function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
