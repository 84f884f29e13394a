// The controls: what the limits are, and who fires at them when.

import { ABOUT, Timeline } from "./timeline.js";

const form = document.querySelector("#limit");
const problem = document.querySelector("#problem");
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

const lanes = ["sliding_window", "fixed_window"].map((algorithm) => {
  const root = document.querySelector("#lane").content.cloneNode(true).firstElementChild;
  document.querySelector("#lanes").append(root);
  const part = (name) => root.querySelector(name);
  part("select").value = algorithm;
  part("select").addEventListener("change", () => start());
  return { root, part, algorithm: () => part("select").value };
});

// The numbers of the form; `undefined` where one is not a number that may be.
function settings() {
  const { max, window, burst, cost } = form.elements;
  return { max: +max.value, window: Math.round(+window.value * 1000), burst: burst.value ? +burst.value : undefined, cost: +cost.value };
}

// As a configuration file would say it.
function policy(algorithm) {
  const { max, window, burst } = settings();
  const isBucket = algorithm.endsWith("bucket");
  const span = window % 1000 ? `${window}ms` : `${window / 1000}s`;
  return { limits: `${max}/${span}`, algorithm, ...(isBucket && burst ? { burst } : {}) };
}

async function post(path, body) {
  const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const failed = !response.ok;
  problem.textContent = failed ? await response.text() : "";
  problem.hidden = !failed;
  return failed ? undefined : response;
}

// Counts the starts: whatever was going on before one ends.
let game = 0;

async function start() {
  if (!form.reportValidity()) return game;
  const current = ++game;
  stopStream();
  document.querySelector("#burst-size").textContent = settings().max;
  const policies = lanes.map((lane) => policy(lane.algorithm()));
  if (!(await post("lanes", policies))) return current;
  lanes.forEach((lane, i) => {
    const { max, window } = settings();
    lane.timeline = new Timeline(lane.part(".timeline"), window, max);
    lane.last = undefined;
    lane.part(".about").textContent = ABOUT[lane.algorithm()];
    lane.part(".policy").textContent = Object.entries(policies[i]).map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join("   ");
  });
  return current;
}

async function fire(count) {
  const response = await post("fire", { count, cost: settings().cost });
  if (!response) return;
  const answers = await response.json();
  lanes.forEach((lane, i) => {
    lane.timeline.add(answers[i], lane.algorithm() === "fixed_window");
    lane.last = answers[i].at(-1);
  });
}

// One request, which begins a fixed window; as many as pass at its end; and as many as pass when the next has begun.
async function edge() {
  const current = await start();
  const { max, window } = settings();
  for (const [wait, count] of [[0, 1], [0.9 * window, max], [0.2 * window, max]]) {
    await pause(wait);
    if (current !== game) return;
    await fire(count);
  }
  document.body.dataset.edge = "shown";
}

let stream;
const steady = document.querySelector("#steady");
function stopStream() {
  clearInterval(stream);
  stream = undefined;
  steady.setAttribute("aria-pressed", "false");
}
steady.addEventListener("click", () => {
  if (stream) return stopStream();
  steady.setAttribute("aria-pressed", "true");
  const { max, window } = settings();
  stream = setInterval(() => fire(1), Math.max(window / max / 1.5, 50)); // half as many again as the limit admits
});

document.querySelector("#fire-one").addEventListener("click", () => fire(1));
document.querySelector("#fire-burst").addEventListener("click", () => fire(settings().max));
document.querySelector("#edge").addEventListener("click", edge);
document.querySelector("#reset").addEventListener("click", start);
form.addEventListener("change", start);
form.addEventListener("submit", (event) => event.preventDefault());

const seconds = (ms) => (ms >= 10 ? `${(ms / 1000).toFixed(2)} s` : "now");

function draw() {
  for (const { timeline, last, part } of lanes) {
    if (!timeline) continue;
    timeline.draw();
    part(".current").textContent = `${timeline.current()} of ${timeline.max}`;
    part(".most").textContent = timeline.most;
    part(".most-of").classList.toggle("too-many", timeline.most > timeline.max);
    part(".remaining").textContent = last ? last.remaining : "–";
    part(".retry").textContent = last ? seconds(last.allowed ? 0 : last.retry_after - (timeline.now() - last.at)) : "–";
  }
  requestAnimationFrame(draw);
}

await start();
draw();
document.body.dataset.ready = "yes";
