// Loads Pyodide and the packages, all of them from this folder, and runs cells.
importScripts("pyodide/pyodide.js");

const PLACE = "/packages";
let pyodide = null;
let session = null;

function tell(kind, content) {
  postMessage({ kind, ...content });
}

async function bytes(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`${file} is not there`);
  return response.arrayBuffer();
}

async function start() {
  tell("progress", { text: "loading Python" });
  const packages = bytes("packages.zip");
  const backtrace = bytes("backtrace.wasm");
  pyodide = await loadPyodide({ indexURL: "pyodide/" });
  tell("progress", { text: "loading numpy, pandas, simpy and tcsim" });
  // numpy's build expects the C library's backtrace(), which Pyodide has not
  pyodide.FS.writeFile("/backtrace.so", new Uint8Array(await backtrace));
  pyodide.runPython(`import ctypes; ctypes.CDLL("/backtrace.so", mode=ctypes.RTLD_GLOBAL)`);
  pyodide.unpackArchive(await packages, "zip", { extractDir: PLACE });
  pyodide.runPython(`import sys; sys.path.insert(0, "${PLACE}")`);
  session = pyodide.pyimport("cells").Session();
  tell("ready", {});
}

const started = start().catch((error) => tell("failed", { text: String(error.message || error) }));

onmessage = async ({ data }) => {
  await started;
  const begin = performance.now();
  let outputs;
  try {
    const found = session.run(data.source);
    outputs = found.toJs({ dict_converter: Object.fromEntries });
    found.destroy();
  } catch (error) {
    outputs = [{ kind: "error", data: String(error.message || error) }];
  }
  tell("outputs", { outputs, seconds: (performance.now() - begin) / 1000 });
};
