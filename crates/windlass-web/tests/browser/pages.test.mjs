// Every page, as it is looked at: light, dark, on a phone; and with hostile jobs in it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { World } from "./world.mjs";

let world;
before(async () => { world = await World.begin(); });
after(() => world?.end());

const looks = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
};

for (const [look, options] of Object.entries(looks)) {
  test(`every page is whole in ${look}, and the browser complains about nothing`, async () => {
    const page = await world.page(options);
    for (const [name, path] of Object.entries(world.pages())) {
      const answer = await page.goto(path);
      assert.equal(answer.status(), 200, name);
      assert.equal(await page.locator("h1").count(), 1, name);
      const [content, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(content <= room, `${name}: ${content} px wide in ${room}`);
      page.quiet();
    }
    await page.context().close();
  });
}

test("dark is dark, light is light, and who chooses one keeps it on the next page", async () => {
  const brightness = (page) => page.evaluate(() => {
    const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
    return (red + green + blue) / 3;
  });
  const dark = await world.page({ colorScheme: "dark" });
  await dark.goto("/");
  assert.ok(await brightness(dark) < 64);

  const light = await world.page({ colorScheme: "light" });
  await light.goto("/");
  assert.ok(await brightness(light) > 192);
  await light.getByRole("button", { name: "Theme: auto" }).click();
  await light.goto("/queues");

  assert.ok(await brightness(light) < 64);
  await dark.context().close();
  await light.context().close();
});

test("no text of a job is run, styled or fetched by any page", async () => {
  const page = await world.page();
  const hostile = await world.some("dead", "hostile.fail");
  const paths = [...Object.values(world.pages()), "/jobs?kind=hostile.fail", ...hostile.map((id) => `/jobs/${id}`)];
  const injected = ["queue", "kind", "q"].map((field) => `/jobs?${field}=${encodeURIComponent('"><script>window.taken=1</script>')}`);
  assert.ok(hostile.length > 10);
  for (const path of [...paths, ...injected]) {
    await page.goto(path);
    await page.locator("details summary").evaluateAll((all) => all.forEach((one) => one.click()));
    const taken = await page.evaluate(() => ({
      flag: window.taken ?? null,
      foreign: document.querySelectorAll("main script, main iframe, main style, main img, main meta, main math, main [onload], main [onerror], main [onfocus], main a[href^='javascript']").length,
    }));
    assert.deepEqual(taken, { flag: null, foreign: 0 }, path);
    assert.deepEqual(page.asked, []);
    page.quiet();
  }
  await page.context().close();
});

test("a hostile text is shown letter by letter", async () => {
  const page = await world.page();
  await page.goto(`/jobs/${world.jobs.hostile}`);

  const shown = await page.locator("pre.data").first().textContent();

  assert.ok(shown.includes("<script>window.taken=1</script>"), shown);
  assert.ok(shown.includes("<img src=x onerror=window.taken=1>"), shown);
  await page.context().close();
});

test("every answer forbids what is not of its own origin", async () => {
  for (const path of ["/", "/jobs", "/no-such-page", "/assets/app.js"]) {
    const policy = (await fetch(`${world.url}${path}`)).headers.get("content-security-policy");
    assert.match(policy, /default-src 'none'/, path);
    assert.doesNotMatch(policy, /unsafe/, path);
  }
});
