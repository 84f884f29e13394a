// One lane's requests over time: the last window shaded, and now near the right edge.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 150, RADIUS = 6, MARGIN = 12;
// The space above a column of dots, for its count and the times.
const ABOVE = 40;
// The number of windows shown.
const SHOWN = 2.5;

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return parent.appendChild(made);
}

export class Timeline {
  // `window` in milliseconds.
  constructor(svg, window) {
    svg.replaceChildren();
    this.svg = svg;
    this.window = window;
    this.arrivals = [];
    this.marks = [];
    this.most = 0;
    this.start = performance.now();
    this.shade = element("rect", { class: "window", height: HEIGHT }, svg);
    this.line = element("line", { class: "now", y1: 0, y2: HEIGHT }, svg);
    this.moving = element("g", {}, svg);
    this.edges = element("g", {}, this.moving);
    this.blocks = element("g", {}, this.moving);
    this.blockedUntil = 0;
    this.ago = element("text", { y: 14 }, svg);
    this.ago.textContent = `${window / 1000} s ago`;
    this.nowText = element("text", { y: 14, "text-anchor": "end" }, svg);
    this.nowText.textContent = "now";
    this.empty = element("text", { class: "empty", y: HEIGHT / 2 + 8 }, svg);
    this.empty.textContent = "no request yet";
    this.resize();
  }

  // Fits the drawing to the width of the page.
  resize() {
    const right = this.svg.clientWidth - MARGIN;
    this.scale = right / (SHOWN * this.window);
    const left = right - this.window * this.scale;
    const set = (of, attributes) => Object.entries(attributes).forEach(([key, value]) => of.setAttribute(key, value));
    set(this.shade, { x: left, width: right - left });
    set(this.line, { x1: right, x2: right });
    set(this.ago, { x: left + 5 });
    set(this.nowText, { x: right - 5 });
    set(this.empty, { x: left / 2 });
    this.right = right;
    this.marks.forEach((mark) => this.#place(mark));
  }

  #place({ at, until, group }) {
    group.setAttribute("transform", `translate(${at * this.scale} 0)`);
    if (until) group.firstChild.setAttribute("width", (until - at) * this.scale);
  }

  #mark(at, parent) {
    const mark = { at, group: element("g", {}, parent) };
    this.marks.push(mark);
    this.#place(mark);
    return mark.group;
  }

  // The time by the clock of the server, or a little less.
  now() {
    return performance.now() - this.start + (this.ahead ?? 0);
  }

  // Takes the server's time from an answer. The difference between the clocks is measured once.
  sync(at) {
    this.ahead ??= at - (performance.now() - this.start);
  }

  // Adds the requests of a burst.
  add(arrivals, showEdges) {
    if (!arrivals.length) return;
    this.empty.remove();
    const at = arrivals[0].at;
    const first = arrivals.find((arrival) => arrival.allowed && arrival.cost);
    if (showEdges && first) this.#edge(at, at + first.reset_after - this.window);
    const column = this.#mark(at, this.moving);
    const room = Math.min(2.2 * RADIUS, (HEIGHT - ABOVE - 2 * RADIUS) / Math.max(arrivals.length - 1, 1));
    const radius = Math.min(RADIUS, Math.max(room / 2, 2.5));
    const y = (i) => HEIGHT - 2 * RADIUS - i * room;
    arrivals.forEach(({ allowed }, i) => element("circle", { class: allowed ? "allowed" : "refused", cy: y(i), r: radius }, column));
    if (arrivals.length > 1) {
      const admitted = arrivals.filter((arrival) => arrival.allowed).length;
      element("text", { class: "count", y: y(arrivals.length - 1) - RADIUS - 5 }, column).textContent = `${admitted}/${arrivals.length}`;
    }
    this.arrivals.push(...arrivals);
    this.most = Math.max(this.most, this.current(at));
  }

  // Marks the time from `at` to `until` as blocked; returns whether this block is new.
  block(at, until) {
    if (at < this.blockedUntil) return false;
    this.blockedUntil = until;
    const mark = { at, until, group: element("g", {}, this.blocks) };
    element("rect", { class: "block", y: 20, height: HEIGHT - 20 }, mark.group);
    this.marks.push(mark);
    this.#place(mark);
    return true;
  }

  // Marks the start `begin` of the window of a request at `at`.
  #edge(at, begin) {
    if (this.begin !== undefined && at < this.begin + this.window - 1) return;
    this.begin = begin;
    element("line", { class: "begins", y1: 20, y2: HEIGHT }, this.#mark(begin, this.edges));
  }

  // The number of requests admitted in the window that ends at `end`.
  current(end = this.now()) {
    const after = end - this.window;
    return this.arrivals.reduce((sum, { at, allowed, cost }) => sum + (allowed && at > after ? cost : 0), 0);
  }

  draw() {
    const now = this.now();
    const oldest = now - (SHOWN + 1) * this.window;
    this.moving.setAttribute("transform", `translate(${this.right - now * this.scale} 0)`);
    while (this.marks.length && (this.marks[0].until ?? this.marks[0].at) < oldest) this.marks.shift().group.remove();
    while (this.arrivals[0]?.at < oldest) this.arrivals.shift();
  }
}
