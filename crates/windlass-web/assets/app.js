// Makes the pages move. Everything works without it; nothing here makes markup out of text.

const base = document.body.dataset.base;
const find = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// Numbers as the server writes them: thousands apart by a narrow space.
const grouped = (count) => String(count).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
const rate = (value) => (value >= 100 ? grouped(Math.round(value)) : value.toFixed(1));

function span(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 1) return `${ms} ms`;
  if (s < 10) return `${s}.${Math.floor((ms % 1000) / 100)} s`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function put(element, text) {
  if (!element || element.textContent === text) return;
  element.textContent = text;
  element.classList.remove("changed");
  void element.offsetWidth; // so that the same animation begins anew
  element.classList.add("changed");
}

const putAll = (name, text) => all(`[data-live="${name}"]`).forEach((element) => put(element, text));

// Times in the reader's zone, and how far away they are.
function tellTimes() {
  for (const element of all("time[datetime]")) {
    const at = new Date(element.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    element.title = at.toLocaleString();
    const away = Date.now() - at.getTime();
    put(element, away >= 0 ? `${span(away)} ago` : `in ${span(-away)}`);
  }
}

// The line of the last minutes on the overview.
const points = [];
function draw(done) {
  const canvas = find("#spark");
  if (!canvas) return;
  points.push(done);
  if (points.length > 240) points.shift();
  canvas.hidden = points.length < 2;
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const top = Math.max(1, ...points);
  context.clearRect(0, 0, width, height);
  context.strokeStyle = getComputedStyle(canvas).color;
  context.lineWidth = 1.5 * scale;
  context.beginPath();
  points.forEach((value, index) => {
    const x = width - (points.length - 1 - index) * (width / 240);
    const y = height - scale - (height - 2 * scale) * (value / top);
    index === 0 ? context.moveTo(x, y) : context.lineTo(x, y);
  });
  context.stroke();
}

function tellQueues(queues) {
  const known = new Map(queues.map((queue) => [queue.name, queue]));
  for (const row of all("[data-queue]")) {
    const queue = known.get(row.dataset.queue);
    if (!queue) continue;
    const cell = (name) => find(`[data-cell="${name}"]`, row);
    put(cell("ready"), grouped(queue.ready));
    put(cell("running"), grouped(queue.running));
    put(cell("waiting"), grouped(queue.waiting));
    put(cell("latency"), span(queue.latency_ms));
  }
}

function tellProcesses(members) {
  const known = new Map(members.map((member) => [member.info.id, member]));
  for (const row of all("[data-process]")) {
    const member = known.get(row.dataset.process);
    if (!member) continue;
    put(find('[data-cell="busy"]', row), String(member.vitals.busy));
    put(find('[data-cell="running"]', row), grouped(member.running));
  }
}

// The rows of the busy page, made anew: their text is set as text.
function tellBusy(members) {
  const body = find("#busy tbody");
  if (!body) return;
  const rows = members.flatMap((member) => member.jobs.map((job) => [member, job]));
  const idle = find("#idle");
  if (idle) idle.hidden = rows.length > 0;
  body.replaceChildren(...rows.map(([member, job]) => {
    const row = document.createElement("tr");
    const cell = (text, kind) => {
      const element = document.createElement("td");
      element.textContent = text;
      if (kind) element.className = kind;
      row.append(element);
      return element;
    };
    const link = document.createElement("a");
    Object.assign(link, { className: "mono", href: `${base}/jobs/${job.id}`, textContent: job.id });
    cell("").append(link);
    cell(job.kind);
    cell(job.queue);
    cell(`${member.info.host}:${member.info.pid}`);
    cell(String(job.attempt), "num");
    cell(span(Math.max(0, Date.now() - new Date(job.leased_at).getTime())));
    return row;
  }));
}

function tell(moment) {
  const lost = find("#lost");
  lost.hidden = !moment.error;
  if (moment.error) {
    lost.textContent = moment.error;
    return;
  }
  for (const state of ["scheduled", "ready", "running", "retry", "done", "dead", "cancelled"]) {
    putAll(state, grouped(moment.counts[state]));
  }
  for (const name of ["done", "failed", "recovered"]) putAll(`total-${name}`, grouped(moment.counts.totals[name]));
  for (const name of ["done", "failed", "enqueued"]) putAll(`rate-${name}`, rate(moment.rates[name]));
  putAll("processes", grouped(moment.processes));
  putAll("busy", grouped(moment.busy));
  tellQueues(moment.queues);
  tellProcesses(moment.members);
  tellBusy(moment.members);
  tellTimes();
  draw(moment.rates.done);
}

// One stream for the tab that is looked at: a browser has few connections, and others need them.
let stream = null;
let again = 0;
function listen() {
  if (stream || document.hidden) return;
  stream = new EventSource(`${base}/events`);
  stream.onopen = () => { find("#pulse").hidden = false; };
  stream.onmessage = (event) => { if (event.data) tell(JSON.parse(event.data)); };
  stream.onerror = () => {
    find("#pulse").hidden = true;
    if (stream && stream.readyState === EventSource.CLOSED) {
      hush();
      clearTimeout(again);
      again = setTimeout(listen, 5000);
    }
  };
}
function hush() {
  if (stream) stream.close();
  stream = null;
  find("#pulse").hidden = true;
}
document.addEventListener("visibilitychange", () => (document.hidden ? hush() : listen()));
window.addEventListener("pagehide", hush);
window.addEventListener("pageshow", listen);

// What cannot be undone is asked about.
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  const isAll = button && button.hasAttribute("data-all-of");
  const question = isAll ? event.target.dataset.askAll : (button && button.dataset.ask) || event.target.dataset.ask;
  if (!question) return;
  if (!window.confirm(question)) return event.preventDefault();
  // The server asks those whom nobody has asked here.
  const sure = document.createElement("input");
  Object.assign(sure, { type: "hidden", name: "sure", value: "yes" });
  event.target.append(sure);
});

// Choosing all rows of a page.
const chooser = find("[data-all]");
if (chooser) {
  chooser.hidden = false;
  chooser.addEventListener("change", () => {
    for (const box of all('input[name="id"]')) box.checked = chooser.checked;
  });
}

// The theme: as the system has it, dark, or light.
const switcher = find("[data-theme-switch]");
if (switcher) {
  const themes = ["auto", "dark", "light"];
  const now = () => document.documentElement.dataset.theme || "auto";
  const show = () => { switcher.textContent = `Theme: ${now()}`; };
  switcher.hidden = false;
  show();
  switcher.addEventListener("click", () => {
    const next = themes[(themes.indexOf(now()) + 1) % themes.length];
    if (next === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    document.cookie = `windlass-theme=${next}; path=${base || "/"}; max-age=31536000; samesite=strict`;
    show();
  });
}

// Keys: a letter opens a page, / finds, j and k walk the rows, x chooses one, Enter opens it.
let at = -1;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const page = find(`nav a[data-key="${CSS.escape(event.key)}"]`);
  const rows = all("main tbody tr");
  if (event.key === "/") {
    event.preventDefault();
    find(".find input").focus();
  } else if ((event.key === "j" || event.key === "k") && rows.length > 0) {
    at = Math.min(rows.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)));
    const link = find("a", rows[at]);
    if (link) link.focus();
  } else if (event.key === "x" && rows[at]) {
    const box = find('input[name="id"]', rows[at]);
    if (box) box.checked = !box.checked;
  } else if (page) {
    page.click();
  }
});

// Which page this is.
for (const link of all("nav a")) {
  const [here, there] = [new URL(location.href), new URL(link.href)];
  const isSame = here.pathname.replace(/\/$/, "") === there.pathname.replace(/\/$/, "");
  if (isSame && (here.searchParams.get("state") || "") === (there.searchParams.get("state") || "")) {
    link.setAttribute("aria-current", "page");
  }
}

tellTimes();
setInterval(tellTimes, 10000);
listen();
