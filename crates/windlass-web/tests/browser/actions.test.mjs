// Every action, by the mouse of a person, with and without JavaScript.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { World, until } from "./world.mjs";

for (const javaScriptEnabled of [true, false]) {
  describe(javaScriptEnabled ? "with JavaScript" : "without JavaScript", () => {
    let world, page;
    before(async () => {
      world = await World.begin();
      page = await world.page({ javaScriptEnabled });
    });
    after(() => world?.end());

    const button = (name, within = page) => within.getByRole("button", { name, exact: true });

    /// Presses it, and says yes where the server asks, because nothing on the page could.
    async function press(name, within = page) {
      await Promise.all([page.waitForEvent("framenavigated"), button(name, within).click()]);
      await page.waitForLoadState();
      if (await button("Yes").count() === 0) return;
      assert.equal(javaScriptEnabled, false, `${name} was asked about twice`);
      await Promise.all([page.waitForEvent("framenavigated"), button("Yes").click()]);
    }

    test("a queue is paused and resumed, in the list and on its page", async () => {
      await page.goto("/queues");
      const row = page.locator('[data-queue="night"]');

      await press("Pause", row);
      await row.getByText("paused").waitFor();
      assert.equal((await world.queue("night")).paused, true);

      await page.goto("/queue?name=night");
      await press("Resume");
      await button("Pause").waitFor();
      assert.equal((await world.queue("night")).paused, false);
      page.quiet();
    });

    test("a queue is cleared of what is ready", async () => {
      await page.goto("/queue?name=spare");
      assert.equal((await world.queue("spare")).ready, 1);

      await press("Clear");
      await page.getByRole("status").waitFor();

      assert.equal((await world.queue("spare")).ready, 0);
      assert.match(await page.getByRole("status").textContent(), /1 job changed/);
    });

    test("one job is retried, killed, cancelled and deleted on its page", async () => {
      const [retry, other] = await world.some("retry");
      await page.goto(`/jobs/${retry}`);
      await press("Kill");
      await page.locator(".tag.dead").first().waitFor();
      assert.equal(await world.state(retry), "dead");

      await page.goto(`/jobs/${other}`);
      await press("Cancel");
      await page.locator(".tag.cancelled").first().waitFor();
      assert.equal(await world.state(other), "cancelled");

      await page.goto(`/jobs/${world.jobs.scheduled}`);
      await press("Run now");
      await page.waitForURL(/jobs/);
      await until(async () => ["ready", "running", "gone", "done"].includes(await world.state(world.jobs.scheduled)), true);

      await page.goto(`/jobs/${world.jobs.dead}`);
      await press("Delete");
      await page.waitForURL(/changed=1/);
      assert.equal(await world.state(world.jobs.dead), "gone");
    });

    test("a running job is asked to give way", async () => {
      await page.goto(`/jobs/${world.jobs.running}`);

      await press("Cancel");

      await until(() => world.state(world.jobs.running), "cancelled");
    });

    test("the chosen jobs of a list are deleted, and no other", async () => {
      const before = (await world.some("dead")).length;
      await page.goto("/jobs?state=dead&kind=report.fail");
      const boxes = page.locator('input[name="id"]');
      const chosen = [await boxes.nth(0).getAttribute("value"), await boxes.nth(2).getAttribute("value")];
      const spared = await boxes.nth(1).getAttribute("value");
      await boxes.nth(0).check();
      await boxes.nth(2).check();

      await press("Delete");
      await page.getByRole("status").waitFor();

      assert.match(await page.getByRole("status").textContent(), /2 jobs changed/);
      assert.deepEqual(await Promise.all(chosen.map((id) => world.state(id))), ["gone", "gone"]);
      assert.equal(await world.state(spared), "dead");
      assert.equal((await world.some("dead")).length, before - 2);
    });

    test("the chosen jobs of a list are killed", async () => {
      await page.goto("/jobs?state=scheduled");
      const box = page.locator('input[name="id"]').first();
      const id = await box.getAttribute("value");
      await box.check();

      await press("Kill");
      await page.getByRole("status").waitFor();

      assert.equal(await world.state(id), "dead");
    });

    test("all dead jobs of a kind are retried, beyond the page that is shown, and no other kind", async () => {
      const mine = await world.some("dead", "report.fail");
      const others = await world.some("dead", "hostile.fail");
      assert.ok(mine.length > 50, `${mine.length} dead jobs are more than a page`);
      const runs = async () => (await world.api(`jobs/${mine[0]}`)).run;
      const before = await runs();
      await page.goto("/jobs?state=dead&kind=report.fail");

      await press("Retry all");
      await page.getByRole("status").waitFor();

      await until(async () => (await runs()) > before, true);
      assert.deepEqual(await world.some("dead", "hostile.fail"), others);
    });

    test("pages follow one another without a gap and without a double", async () => {
      await page.goto("/jobs?state=ready&queue=night");
      const seen = await listed(page);
      await page.getByRole("link", { name: "Next page" }).click();
      await page.waitForURL(/after=/);
      seen.push(...await listed(page));

      assert.equal(new Set(seen).size, seen.length);
      assert.equal(seen.length, (await world.some("ready", "mail.send")).filter((id) => seen.includes(id)).length);
      await page.getByRole("link", { name: "First page" }).click();
      assert.equal((await listed(page))[0], seen[0]);
    });

    test("what cannot be undone is asked about where there is JavaScript", () => {
      assert.equal(page.asked.length > 0, javaScriptEnabled);
    });

    test("a process is made quiet, then stopped, and is gone", async () => {
      await page.goto("/processes");
      const row = page.locator("[data-process]");

      await press("Quiet", row);
      await page.getByRole("status").waitFor();
      await until(async () => (await world.api("processes"))[0].vitals.quiet, true);

      await page.goto("/processes");
      await page.getByText("quiet", { exact: true }).waitFor();
      await press("Stop", row);
      await world.seeded.ended;

      await page.goto("/processes");
      await page.getByText("No process works on this store").waitFor();
      page.quiet();
    });
  });
}

/// The ids of the jobs on the page. Locators ask the page from outside: this works without JavaScript, too.
async function listed(page) {
  const links = await page.locator("#jobs tbody td a.mono").all();
  return Promise.all(links.map((link) => link.textContent()));
}

test("who may only look finds nothing to press", async () => {
  const world = await World.begin(["--read-only"]);
  const page = await world.page();
  for (const path of Object.values(world.pages())) {
    await page.goto(path);
    assert.equal(await page.locator('form[method="post"] button').count(), 0, path);
  }
  await world.end();
});
