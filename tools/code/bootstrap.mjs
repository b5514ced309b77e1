// Runs the program of one call. opta sends the call over the channel: a socket that the runtime
// knows from NODE_CHANNEL_FD, or, in a container, standard input and output.

const channel = process.send ? ownSocket() : await standardStreams();

function ownSocket() {
  return {
    send: (frame, sent) => process.send(frame, sent),
    receive(take, leave) {
      process.on("disconnect", leave);
      process.on("message", take);
    },
  };
}

async function standardStreams() {
  const { stdin, stdout, stderr } = process;
  const { Console } = await import("node:console");
  // What the program prints must not get between the frames.
  Object.defineProperty(process, "stdout", { value: stderr });
  globalThis.console = new Console(stderr, stderr);
  return {
    send: (frame, sent) => stdout.write(`${JSON.stringify(frame)}\n`, sent),
    receive(take, leave) {
      let rest = "";
      stdin.setEncoding("utf8");
      stdin.on("end", leave);
      stdin.on("data", (data) => {
        const lines = (rest + data).split("\n");
        rest = lines.pop();
        for (const line of lines) take(JSON.parse(line));
      });
    },
  };
}

const waiting = new Map();
let asked = 0;

function ask(method, ...params) {
  // Made here, it knows the line that asks.
  const failure = new Error();
  return new Promise((resolve, reject) => {
    const refuse = (message) => reject(Object.assign(failure, { message }));
    waiting.set(++asked, { resolve, refuse });
    channel.send({ type: "ask", id: asked, method, params });
  });
}

function settle({ id, value, error }) {
  const { resolve, refuse } = waiting.get(id);
  waiting.delete(id);
  if (error === undefined) resolve(value);
  else refuse(error);
}

const platform = {
  fs: {
    readFile: (path, encoding) => ask("fs.readFile", path, encoding?.encoding ?? encoding),
    writeFile: (path, content) => ask("fs.writeFile", path, content),
    exists: (path) => ask("fs.exists", path),
    readdir: (path) => ask("fs.readdir", path),
    glob: (pattern, path) => ask("fs.glob", pattern, path ?? "."),
  },
  executor: {
    execute: (command, args, options) => ask("executor.execute", command, args, options),
  },
};

const llm = { complete: (prompt, options) => ask("llm.complete", prompt, options?.system) };

const print = (stream, level) => (message) => stream.call(console, `[${level}] ${message}`);
const logger = {
  info: print(console.log, "INFO"),
  warn: print(console.error, "WARN"),
  error: print(console.error, "ERROR"),
};

function entry({ __opta, default: given }) {
  const candidates = [
    __opta.execute, given, given?.execute, __opta.exports, __opta.exports?.execute,
  ];
  const found = candidates.find((candidate) => typeof candidate === "function");
  if (found) return found;
  throw new Error("the code has no function execute(args, context), exported or not");
}

async function run({ program, args, context }) {
  let value;
  try {
    const execute = entry(await import(program));
    value = await execute(args, { ...context, platform, llm, logger });
  } catch (error) {
    // A place in the code that does not parse is told by node only where nobody catches it.
    if (error instanceof SyntaxError && !String(error.stack).includes(program)) throw error;
    return { type: "threw", message: described(error), trace: traced(error) };
  }
  try {
    return { type: "returned", json: JSON.stringify(value) ?? null };
  } catch (error) {
    return { type: "unusable", message: `its result is not JSON: ${error.message}` };
  }
}

function described(error) {
  if (!(error instanceof Error)) return typeof error === "string" ? error : String(error);
  return error.message.startsWith(`${error.name}: `) ? error.message : `${error.name}: ${error.message}`;
}

function traced(error) {
  // Where code does not parse, bun says so beside the message.
  const { file, line } = error?.position ?? {};
  return file ? `${file}:${line}` : String(error?.stack ?? "");
}

async function take(message) {
  if (message.id !== undefined) return settle(message);
  const answer = await run(message);
  channel.send(answer, () => process.exit(0));
}

channel.receive(take, () => process.exit(1));
channel.send({ type: "ready" });
