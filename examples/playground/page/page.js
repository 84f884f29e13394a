// The controls: the settings of the limits, and the requests to send.

import { ALGORITHMS } from "./algorithms.js";
import { Timeline } from "./timeline.js";

const form = document.querySelector("#limit");
const problem = document.querySelector("#problem");
const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));
const say = (text) => { document.querySelector("#status").textContent = text; };

const lanes = ["sliding_window", "fixed_window"].map((algorithm, index) => {
  const root = document.querySelector("#lane").content.cloneNode(true).firstElementChild;
  document.querySelector("#lanes").append(root);
  const part = (name) => root.querySelector(name);
  const lane = { part, algorithm: () => part("select").value };
  part("select").append(...Object.keys(ALGORITHMS).map((name) => new Option(name)));
  part("select").value = algorithm;
  part("select").addEventListener("change", () => start());
  part(".copy").addEventListener("click", () => copy(lane));
  part(".end").addEventListener("click", () => post("end", { lane: index }));
  new ResizeObserver(() => lane.timeline?.resize()).observe(part(".timeline"));
  return lane;
});

// The numbers of the form; times in milliseconds.
function settings() {
  const { max, window, burst, cost, block, longest, concurrent } = form.elements;
  const ms = (input) => Math.round(+input.value * 1000);
  return {
    max: +max.value, window: ms(window), burst: +burst.value || +max.value, cost: +cost.value,
    block: ms(block), longest: Math.max(ms(longest), ms(block)), concurrent: +concurrent.value || null,
  };
}

const span = (window) => (window % 1000 ? `${window}ms` : `${window / 1000}s`);
const range = ({ block, longest }) => (longest > block ? `${span(block)}..${span(longest)}` : span(block));

// The settings as a policy of a configuration file.
function policy(algorithm) {
  const { max, window, burst, block, longest } = settings();
  return {
    limits: `${max}/${span(window)}`, algorithm,
    ...(ALGORITHMS[algorithm].isBucket ? { burst } : {}),
    ...(block ? { block: range({ block, longest }) } : {}),
  };
}

// The settings as an attribute of a function with the argument `email`.
function attribute(algorithm) {
  const { max, window, burst, cost, block, longest, concurrent } = settings();
  const values = [`key = "<email>"`, `window = "${span(window)}"`, `max = ${max}`, `algorithm = "${algorithm}"`];
  if (ALGORITHMS[algorithm].isBucket) values.push(`burst = ${burst}`);
  if (cost > 1) values.push(`cost = ${cost}`);
  if (block) values.push(`block = "${range({ block, longest })}"`);
  if (concurrent) values.push(`concurrent = ${concurrent}`);
  return `#[rate_limit(${values.join(", ")})]`;
}

async function copy(lane) {
  const button = lane.part(".copy");
  try {
    await navigator.clipboard.writeText(lane.part(".attribute").textContent);
    button.textContent = "copied";
  } catch {
    // The browser forbids copying: select the text, so that the user can copy it.
    getSelection().selectAllChildren(lane.part(".attribute"));
    button.textContent = "selected";
  }
  await pause(1500);
  button.textContent = "copy";
}

function complain(text) {
  problem.textContent = text;
  problem.hidden = !text;
}

async function send(path, body) {
  try {
    const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    const text = await response.text();
    // A successful `peek` must not remove the message of an earlier mistake.
    if (!response.ok || path !== "peek") complain(response.ok ? "" : text);
    return response.ok ? (text ? JSON.parse(text) : []) : undefined;
  } catch {
    complain("The playground does not answer: is it still running?");
  }
}

// Requests are sent one after another, so that answers arrive in order.
let last = Promise.resolve();
function post(path, body) {
  last = last.then(() => send(path, body));
  return last;
}

// Counts the starts: activities of an earlier start end.
let game = 0;

async function start() {
  if (!form.reportValidity()) return game;
  const current = ++game;
  stopStream();
  const { max, window, burst, block, concurrent } = settings();
  form.elements.longest.disabled = !block;
  document.querySelector("#begin").disabled = !concurrent;
  form.elements.burst.disabled = !lanes.some((lane) => ALGORITHMS[lane.algorithm()].isBucket);
  document.querySelector("#burst-size").textContent = max;
  if (!(await post("lanes", lanes.map((lane) => ({ policy: policy(lane.algorithm()), concurrent }))))) return current;
  say("Press “window-edge burst” first: it fires around the moment at which a fixed window ends.");
  for (const lane of lanes) {
    const { about, bound } = ALGORITHMS[lane.algorithm()];
    lane.timeline = new Timeline(lane.part(".timeline"), window);
    lane.next = undefined;
    [lane.max, lane.bound] = [max, bound(max, burst)];
    [lane.concurrent, lane.blocks] = [concurrent, 0];
    lane.part(".of-block").hidden = !block;
    lane.part(".of-calls").hidden = !concurrent;
    lane.part(".about").textContent = about;
    lane.part(".bound").textContent = `of ${lane.bound} possible`;
    lane.part(".attribute").textContent = attribute(lane.algorithm());
  }
  return current;
}

// Shows whether the lane's next request would be admitted.
function expect(lane, next) {
  lane.next = next;
  lane.timeline.sync(next.at);
  if (next.blocked_for && lane.timeline.block(next.at, next.at + next.blocked_for)) lane.blocks += 1;
}

const fire = (count) => arrive("fire", { count, cost: settings().cost });

async function arrive(path, body) {
  const fired = await post(path, body);
  fired?.forEach(({ arrivals, next }, i) => {
    expect(lanes[i], next);
    lanes[i].timeline.add(arrivals, lanes[i].algorithm() === "fixed_window");
  });
}

async function watch() {
  for (;;) {
    const standings = await post("peek", { cost: settings().cost });
    standings?.forEach((next, i) => expect(lanes[i], next));
    await pause(100);
  }
}

// One request, which begins a fixed window; as many as are admitted at its end; and as many when the next window has begun.
async function edge() {
  const current = await start();
  const { max, window } = settings();
  const steps = [
    [0, 1, `One request begins a fixed window. ${max} more come shortly before it ends …`],
    [0.9 * window, max, `… and ${max} more when the next window has begun.`],
    [0.2 * window, max],
  ];
  for (const [wait, count, text] of steps) {
    await pause(wait);
    if (current !== game) return;
    await fire(count);
    if (text) say(text);
  }
  await pause(0.15 * window);
  if (current !== game) return;
  const most = lanes.map((lane) => `${lane.algorithm()} admitted ${lane.timeline.most}`);
  say(`Within ${window / 1000} s, ${most.join(" and ")}; both limits say ${max}.`);
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
  stream = setInterval(() => fire(1), Math.max(window / max / 1.5, 50)); // 1.5 times as many as the limit admits
});

document.querySelector("#begin").addEventListener("click", () => arrive("begin", { cost: settings().cost }));
document.querySelector("#fire-one").addEventListener("click", () => fire(1));
document.querySelector("#fire-burst").addEventListener("click", () => fire(settings().max));
document.querySelector("#edge").addEventListener("click", edge);
document.querySelector("#reset").addEventListener("click", start);
form.addEventListener("change", start);
form.addEventListener("submit", (event) => event.preventDefault());

// Rounded up: it says "now" only when the next request is admitted.
const seconds = (ms) => `${(Math.ceil(ms / 10) / 100).toFixed(2)} s`;
function wait({ timeline, next, concurrent }) {
  if (next.retry_after === null) return concurrent && next.in_flight >= concurrent ? "a call ends" : "never";
  const left = next.retry_after && next.retry_after - (timeline.now() - next.at);
  return left > 0 ? seconds(left) : "now";
}

// The number of the block, and its remaining time.
function blocked({ timeline, blocks }) {
  const left = timeline.blockedUntil - timeline.now();
  return left > 0 ? `no. ${blocks}: ${seconds(left)}` : "none";
}

function draw() {
  for (const lane of lanes) {
    const { timeline, next, max, bound, part } = lane;
    if (!timeline) continue;
    timeline.draw();
    part(".current").textContent = timeline.current();
    part(".most").textContent = timeline.most;
    part(".most-of").classList.toggle("above-max", timeline.most > max);
    part(".most-of").classList.toggle("too-many", timeline.most > bound);
    part(".remaining").textContent = next ? `${next.remaining} of ${next.limit}` : "–";
    part(".retry").textContent = next ? wait(lane) : "–";
    part(".block").textContent = blocked(lane);
    part(".calls").textContent = next && lane.concurrent ? `${next.in_flight} of ${lane.concurrent}` : "0";
    part(".end").disabled = !next?.in_flight;
  }
  requestAnimationFrame(draw);
}

await start();
draw();
watch();
document.body.dataset.ready = "yes";
