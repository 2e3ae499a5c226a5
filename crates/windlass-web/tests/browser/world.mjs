// What every browser test stands on: a seeded store with a live server, `windlass web` on it, and a Chromium that keeps a
// list of everything it complains about.
//
// `cargo xtask browser` builds the two programs, installs the driver, and tells by the environment where they are.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const { WINDLASS, SEEDED, DRIVER, CHROMIUM } = process.env;
const { chromium } = createRequire(join(DRIVER, "package.json"))("playwright-core");

/// How long anything may take on a busy machine.
export const PATIENCE = 30_000;

/// Starts a program and answers it with the first line that `pick` finds something in.
async function start(program, args, stream, pick) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "pipe"], env: environment() });
  const heard = [];
  const other = stream === "stdout" ? "stderr" : "stdout";
  child[other].on("data", (data) => heard.push(String(data)));
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const found = await new Promise((resolve, reject) => {
    createInterface({ input: child[stream] }).on("line", (line) => {
      heard.push(line);
      const something = pick(line);
      if (something) resolve(something);
    });
    child.once("error", reject);
    ended.then((code) => reject(new Error(`${program} ended with ${code}: ${heard.join("\n")}`)));
  });
  return { child, ended, found };
}

/// Ours, without what would configure the programs otherwise.
function environment() {
  const names = Object.keys(process.env).filter((name) => !name.startsWith("WINDLASS"));
  return Object.fromEntries(names.map((name) => [name, process.env[name]]));
}

export class World {
  /// A world of one's own: tests that change it do not disturb others. `args` are for `windlass web`.
  static async begin(args = []) {
    const world = new World();
    world.folder = await mkdtemp(join(tmpdir(), "windlass-browser-"));
    const store = `sqlite:${join(world.folder, "jobs.db")}`;
    world.parts = [];
    try {
      const seeded = await start(SEEDED, [store], "stdout", (line) => JSON.parse(line));
      world.parts.push(seeded);
      world.seeded = seeded;
      world.jobs = seeded.found;
      const listen = ["web", "--store", store, "--listen", "127.0.0.1:0", ...args];
      const web = await start(WINDLASS, listen, "stderr", (line) => line.match(/http:\/\/[\d.]+:\d+/)?.[0]);
      world.parts.push(web);
      world.url = web.found;
      world.browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
    } catch (error) {
      await world.end();
      throw error;
    }
    return world;
  }

  async end() {
    await this.browser?.close();
    for (const { child, ended } of this.parts.reverse()) {
      child.stdin.end();
      child.kill("SIGTERM");
      await ended;
    }
    await rm(this.folder, { recursive: true });
  }

  /// A page in a context of its own. What it complains about is collected, and `quiet` says that there was nothing.
  async page(options = {}) {
    const context = await this.browser.newContext({ baseURL: this.url, viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    page.complaints = [];
    page.asked = [];
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) page.complaints.push(message.text());
    });
    page.on("pageerror", (error) => page.complaints.push(String(error)));
    page.on("request", (request) => {
      const { protocol, origin } = new URL(request.url());
      if (protocol !== "data:" && origin !== this.url) page.complaints.push(`asked elsewhere: ${request.url()}`);
    });
    page.on("response", (response) => {
      if (response.status() >= 400) page.complaints.push(`${response.status()} ${response.url()}`);
    });
    page.on("dialog", (dialog) => {
      page.asked.push(dialog.message());
      return dialog.accept();
    });
    page.quiet = () => assert.deepEqual(page.complaints, [], page.url());
    return page;
  }

  /// What the API answers.
  async api(path) {
    const answer = await fetch(`${this.url}/api/${path}`);
    assert.equal(answer.status, 200, path);
    return answer.json();
  }

  /// A job's state, or "gone".
  async state(id) {
    const answer = await fetch(`${this.url}/api/jobs/${id}`);
    return answer.status === 404 ? "gone" : (await answer.json()).state;
  }

  /// The queue as the API shows it; an empty one when it is not there.
  async queue(name) {
    const queues = await this.api("queues");
    return queues.find((queue) => queue.name === name) ?? { name, ready: 0, paused: false };
  }

  /// Ids of some jobs in a state.
  async some(state, kind) {
    const { jobs } = await this.api(`jobs?state=${state}${kind ? `&kind=${kind}` : ""}&limit=100`);
    return jobs.map((job) => job.id);
  }

  /// Every page there is, by name.
  pages() {
    const { jobs } = this;
    return {
      overview: "/",
      day: "/?span=day",
      queues: "/queues",
      queue: "/queue?name=night",
      foreign: `/queue?name=${encodeURIComponent("deutsche.übung")}`,
      busy: "/busy",
      all: "/jobs",
      ready: "/jobs?state=ready",
      scheduled: "/jobs?state=scheduled",
      retries: "/jobs?state=retry",
      dead: "/jobs?state=dead",
      done: "/jobs?state=done",
      cancelled: "/jobs?state=cancelled",
      found: "/jobs?q=page",
      nothing: "/jobs?q=no-such-text",
      kinds: "/kinds",
      kind: "/kind?name=image.resize",
      processes: "/processes",
      "dead job": `/jobs/${jobs.dead}`,
      "done job": `/jobs/${jobs.done}`,
      "running job": `/jobs/${jobs.running}`,
      "retried job": `/jobs/${jobs.retry}`,
      "scheduled job": `/jobs/${jobs.scheduled}`,
      "cancelled job": `/jobs/${jobs.cancelled}`,
      "hostile job": `/jobs/${jobs.hostile}`,
      "long job": `/jobs/${jobs.long}`,
    };
  }
}

/// Asks until the answer is the one, and fails with the last one after a while.
export async function until(ask, expected, ms = PATIENCE) {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer === expected) return;
    assert.ok(Date.now() < end, `after ${ms} ms still ${JSON.stringify(answer)}, not ${JSON.stringify(expected)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
