// The pictures of the documentation: `cargo xtask browser --pictures`.

import { join } from "node:path";
import { World } from "./world.mjs";

const folder = process.env.PICTURES;
const wide = { viewport: { width: 1200, height: 800 } };
const pictures = {
  overview: ["/", wide, "light"],
  dark: ["/", wide, "dark"],
  job: [(world) => `/jobs/${world.jobs.retry}`, wide, "light"],
  dead: ["/jobs?state=dead&kind=report.fail", { viewport: { width: 1200, height: 640 } }, "light"],
  phone: ["/", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }, "light"],
};

const world = await World.begin();
// The rates and the line of the overview need a while of life, and the charts a minute.
await new Promise((resolve) => setTimeout(resolve, Number(process.env.PICTURE_AFTER_MS ?? 65_000)));
for (const [name, [path, options, colorScheme]] of Object.entries(pictures)) {
  const page = await world.page({ ...options, colorScheme });
  await page.goto(typeof path === "function" ? path(world) : path);
  await page.locator("#pulse").waitFor({ state: "visible" });
  await new Promise((resolve) => setTimeout(resolve, 8_000));
  const file = join(folder, `dashboard-${name}.png`);
  await page.screenshot({ path: file });
  console.log(file);
  await page.context().close();
}
await world.end();
