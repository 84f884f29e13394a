// One lane's requests over time: the newest at the right edge, the last window shaded.

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000, HEIGHT = 150, RADIUS = 6;

// What each algorithm is like, in a sentence.
export const ABOUT = {
  sliding_window: "An exact log: never more than max in any window, wherever it begins.",
  sliding_counter: "Two counters, and an estimate between them: little memory, nearly exact.",
  fixed_window: "One counter that starts again: up to twice max around an edge.",
  token_bucket: "Tokens come at max per window, and burst of them can be saved up.",
  leaky_bucket: "The same at a constant rate, as one number (GCRA).",
};

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
}

export class Timeline {
  // `window` in milliseconds; two and a half of them are to be seen.
  constructor(svg, window, max) {
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    svg.replaceChildren();
    this.window = window;
    this.max = max;
    this.scale = WIDTH / (2.5 * window);
    this.arrivals = [];
    this.most = 0;
    this.start = performance.now();
    element("rect", { class: "window", x: WIDTH - window * this.scale, y: 0, width: window * this.scale, height: HEIGHT }, svg);
    this.moving = element("g", {}, svg);
    element("text", { x: WIDTH - 28, y: 14 }, svg).textContent = "now";
    element("text", { x: WIDTH - window * this.scale + 4, y: 14 }, svg).textContent = `${window / 1000} s ago`;
  }

  now() {
    return performance.now() - this.start + (this.ahead ?? 0);
  }

  // A burst, by the clock of the server. How far it is ahead of ours is seen once.
  add(arrivals, showEdges) {
    if (!arrivals.length) return;
    this.ahead ??= arrivals[0].at - (performance.now() - this.start);
    const at = arrivals[0].at;
    const room = Math.min(2.2 * RADIUS, (HEIGHT - 4 * RADIUS) / Math.max(arrivals.length, 1));
    arrivals.forEach((arrival, i) => {
      const dot = element("circle", {
        class: arrival.allowed ? "allowed" : "refused",
        cx: at * this.scale, cy: HEIGHT - 2 * RADIUS - i * room, r: RADIUS,
      }, this.moving);
      this.arrivals.push({ dot, ...arrival });
    });
    const first = arrivals.find((arrival) => arrival.allowed);
    if (showEdges && first) this.#edge(at, at + first.reset_after - this.window);
    this.most = Math.max(this.most, this.current(at));
  }

  // The window that a request at `at` fell into began then.
  #edge(at, begin) {
    if (this.begin !== undefined && at < this.begin + this.window - 1) return;
    this.begin = begin;
    element("line", { class: "begins", x1: begin * this.scale, x2: begin * this.scale, y1: 0, y2: HEIGHT }, this.moving);
  }

  // What was admitted in the window that ends then.
  current(end = this.now()) {
    const after = end - this.window;
    return this.arrivals.reduce((sum, { at, allowed, cost }) => sum + (allowed && at > after ? cost : 0), 0);
  }

  draw() {
    const now = this.now();
    this.moving.setAttribute("transform", `translate(${WIDTH - 2 * RADIUS - now * this.scale} 0)`);
    while (this.arrivals.length && this.arrivals[0].at < now - 3 * this.window) this.arrivals.shift().dot.remove();
  }
}
