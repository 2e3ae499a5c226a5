// What moves by itself, and the keyboard.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { World, until } from "./world.mjs";

let world, page;
before(async () => {
  world = await World.begin();
  page = await world.page();
});
after(() => world?.end());

/// What the live figures may be late: one look of the server a second, and a second for a busy machine.
const LATE = 2_000;

const number = async (selector) => Number((await page.locator(selector).first().textContent()).replace(/\D/g, ""));

/// Says what the element holds as soon as that is another text than now, and how long it took.
function change(selector) {
  return page.locator(selector).first().evaluate((element) => new Promise((resolve) => {
    const before = element.textContent;
    const since = performance.now();
    new MutationObserver((_, observer) => {
      if (element.textContent === before) return;
      observer.disconnect();
      resolve(performance.now() - since);
    }).observe(element, { childList: true, characterData: true, subtree: true });
  }));
}

test("the overview counts on within two seconds, again and again, without being loaded anew", async () => {
  await page.goto("/");
  await page.locator("#pulse").filter({ hasText: "live" }).waitFor({ state: "visible" });
  await change('[data-live="total-done"]');

  for (let round = 0; round < 3; round += 1) {
    const took = await change('[data-live="total-done"]');
    assert.ok(took <= LATE, `${took} ms`);
  }

  assert.ok(await number('[data-live="rate-done"]') > 0);
  assert.equal(await page.locator("#spark").isVisible(), true);
  page.quiet();
});

test("what somebody else does is seen within two seconds", async () => {
  await page.goto("/");
  await page.locator("#pulse").waitFor({ state: "visible" });
  const dead = await number('[data-live="dead"]');

  const answer = await fetch(`${world.url}/api/jobs/${world.jobs.dead}/delete`, { method: "POST", headers: { "content-type": "application/json" } });
  assert.equal(answer.status, 200);
  await until(() => number('[data-live="dead"]'), dead - 1, LATE);
});

test("the busy page shows who runs what, and keeps its rows up to date", async () => {
  await page.goto("/busy");
  await page.locator("#busy tbody").getByText("video.encode").first().waitFor();
  await fetch(`${world.url}/api/jobs/${world.jobs.running}/cancel`, { method: "POST", headers: { "content-type": "application/json" } });

  await page.locator(`#busy a[href$="${world.jobs.running}"]`).waitFor({ state: "detached" });
  page.quiet();
});

test("times are told as so long ago, with the reader's own clock beside them", async () => {
  const there = await world.page({ timezoneId: "Asia/Tokyo", locale: "en-GB" });
  await there.goto(`/jobs/${world.jobs.done}`);
  const time = there.locator("time").first();

  assert.match(await time.textContent(), /ago$/);
  const expected = await time.evaluate((element) => new Date(element.dateTime).toLocaleString("en-GB", { timeZone: "Asia/Tokyo" }));
  assert.equal(await time.getAttribute("title"), expected);
  await there.context().close();
});

test("a tab that comes back is live again", async () => {
  await page.goto("/");
  await page.locator("#pulse").waitFor({ state: "visible" });
  await page.goto("/kinds");
  await page.goBack();

  await page.locator("#pulse").waitFor({ state: "visible" });
  await change('[data-live="total-done"]');
});

test("a letter opens each page, and a letter typed into a field does not", async () => {
  const keys = { o: "/", q: "/queues", b: "/busy", s: "/jobs?state=scheduled", r: "/jobs?state=retry", d: "/jobs?state=dead", i: "/kinds", p: "/processes" };
  for (const [key, path] of Object.entries(keys)) {
    await page.goto(key === "o" ? "/kinds" : "/");
    await page.keyboard.press(key);
    await page.waitForURL(`${world.url}${path}`);
    assert.equal(await page.locator('nav a[aria-current="page"]').count(), 1, path);
  }
  await page.goto("/");
  await page.keyboard.press("/");
  await page.keyboard.type("dpage");
  assert.equal(await page.locator(".find input").inputValue(), "dpage");
  assert.equal(page.url(), `${world.url}/`);
  await page.keyboard.press("Enter");
  await page.waitForURL(/q=dpage/);
});

test("rows are walked, chosen and opened by keys alone", async () => {
  await page.goto("/jobs?state=dead&kind=report.fail");
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  const chosen = await page.locator('input[name="id"]:checked').evaluateAll((all) => all.map((one) => one.value));
  assert.deepEqual(chosen, [await page.locator('input[name="id"]').nth(1).inputValue()]);
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${world.url}/jobs/${await firstDead()}`);
});

const firstDead = async () => (await world.api("jobs?state=dead&kind=report.fail")).jobs[0].id;

test("Tab goes by the way into the content, through the pages, to what can be done, and each stop is seen", async () => {
  await page.goto("/queues");
  const stops = [];
  for (let count = 0; count < 40; count += 1) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const element = document.activeElement;
      if (element === document.body) return null;
      const { outlineStyle, outlineWidth } = getComputedStyle(element);
      const { top, bottom, width } = element.getBoundingClientRect();
      const isSeen = outlineStyle !== "none" && outlineWidth !== "0px" && width > 0 && bottom > 0 && top < innerHeight;
      return { text: (element.textContent || element.name || "").trim().split(/\s/)[0], isSeen };
    });
    if (stop) stops.push(stop);
  }

  const order = ["Skip", "windlass", "Overview", "Queues", "Busy"];
  assert.deepEqual(stops.slice(0, order.length).map((stop) => stop.text), order);
  assert.ok(stops.some((stop) => stop.text === "Pause"), JSON.stringify(stops));
  assert.deepEqual(stops.filter((stop) => !stop.isSeen), []);
});

test("a queue is paused by the keyboard alone", async () => {
  await page.goto("/queue?name=night");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  const isPause = () => page.evaluate(() => document.activeElement.textContent === "Pause");
  for (let count = 0; count < 10 && !(await isPause()); count += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");

  await until(async () => (await world.queue("night")).paused, true);
});

test("a page whose server went away says no longer that it is live", async () => {
  const other = await World.begin();
  const left = await other.page();
  await left.goto("/");
  await left.locator("#pulse").waitFor({ state: "visible" });
  const web = other.parts.pop();
  web.child.kill("SIGTERM");
  await web.ended;

  await left.locator("#pulse").waitFor({ state: "hidden" });
  await other.end();
});
