// BullMQ as a peer of `cargo xtask bench jobs`: node jobs.mjs enqueue|drain URL COUNT CONCURRENCY
// What is printed, and when it ends, is said in bench/src/redis/peer.rs.
import { Queue, Worker } from "bullmq";
import IORedis from "ioredis";

const [work, url, countText, concurrencyText] = process.argv.slice(2);
const count = Number(countText);
const connection = new IORedis(url, { maxRetriesPerRequest: null });
const filling = "x".repeat(180);

let since;
const begin = () => { since ??= { wall: performance.now(), cpu: process.cpuUsage() }; };
const say = (counted, sum) => {
  const { user, system } = process.cpuUsage(since.cpu);
  const seconds = (performance.now() - since.wall) / 1e3;
  console.log(JSON.stringify({ count: counted, sum, seconds, cpu_seconds: (user + system) / 1e6 }));
};

if (work === "enqueue") {
  const queue = new Queue("bench", { connection });
  await queue.waitUntilReady();
  begin();
  for (let first = 0; first < count; first += 1_000) {
    const batch = [];
    for (let number = first; number < Math.min(first + 1_000, count); number++) {
      batch.push({ name: "noop", data: { number, filling }, opts: { removeOnComplete: true } });
    }
    await queue.addBulk(batch);
  }
  say(count, (count * (count - 1)) / 2);
  await queue.close();
  connection.disconnect();
} else {
  let counted = 0;
  let sum = 0;
  const worker = new Worker("bench", async () => { begin(); }, { connection, concurrency: Number(concurrencyText) });
  worker.on("completed", (job) => {
    counted += 1;
    sum += job.data.number;
    if (counted === count) say(counted, sum);
  });
  process.on("SIGTERM", async () => {
    await worker.close();
    connection.disconnect();
  });
}
