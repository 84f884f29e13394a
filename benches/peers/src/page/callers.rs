//! [`draw`]: decisions per second and latency over the number of callers as an SVG, legible on
//! light and on dark pages.

use std::fmt::Write as _;

use crate::measure::Figures;
use crate::page::chart::STYLE;
use crate::parts::callers::{CALLERS, Callers, Distance, SIDES};
use crate::table::number;
use crate::work::DISTINCT;

/// The size of one plot and the room around it, in a picture of two by two plots.
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 70.0;
const COLUMN: f64 = 400.0;
const ROW: f64 = 270.0;

const COLOURS: [&str; SIDES.len()] = [
    "#bf8700", "#9a6700", "#1a7f37", "#116329", "#0969da", "#8250df",
];

/// A plot: its heading, where the server is, and what is drawn.
type Plot = (&'static str, Distance, fn(&Figures) -> f64);

const PLOTS: [Plot; 4] = [
    ("decisions a second, near", Distance::Near, |of| {
        of.per_second
    }),
    ("decisions a second, far", Distance::Far, |of| of.per_second),
    ("p50 in microseconds, near", Distance::Near, |of| of.p50),
    ("p50 in microseconds, far", Distance::Far, |of| of.p50),
];

/// Both axes by powers of two.
pub fn draw(callers: &Callers) -> String {
    let mut body = String::new();
    for (at, plot) in PLOTS.into_iter().enumerate() {
        let (column, row) = ((at % 2) as f64, (at / 2) as f64);
        draw_one(
            &mut body,
            callers,
            plot,
            LEFT + column * COLUMN,
            TOP + row * ROW,
        );
    }
    for (at, side) in SIDES.into_iter().enumerate() {
        let (x, y) = (
            LEFT + COLUMN * (at / 3) as f64,
            TOP + 2.0 * ROW + 20.0 * (at % 3) as f64,
        );
        let (colour, name) = (COLOURS[at], side.name().replace("**", ""));
        let _ = writeln!(
            body,
            "<rect x=\"{x}\" y=\"{:.0}\" width=\"14\" height=\"4\" style=\"fill: {colour}\"/>\
             <text x=\"{}\" y=\"{y:.0}\">{name}</text>",
            y - 6.0,
            x + 22.0
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 670\" width=\"820\" \
         height=\"670\" role=\"img\" aria-label=\"Decisions and latency over the number of \
         callers\">\n<style>{STYLE}  .grid {{ stroke: #8c959f; stroke-opacity: 0.3 }}\n  .middle \
         {{ text-anchor: middle }}\n</style>\n<text class=\"title\" x=\"{LEFT}\" y=\"26\">One \
         process, every call on another key, by the number of callers</text>\n{body}</svg>\n"
    )
}

fn draw_one(body: &mut String, callers: &Callers, plot: Plot, left: f64, top: f64) {
    let (title, distance, figure) = plot;
    let of = |side, count| Some(figure(&callers.of(distance, DISTINCT, side, count)?));
    let all = SIDES
        .into_iter()
        .flat_map(|side| CALLERS.into_iter().filter_map(move |count| of(side, count)));
    let (least, most) = all.fold((f64::MAX, 1.0), |(least, most): (f64, f64), value| {
        (least.min(value), most.max(value))
    });
    let (least, most) = (least.log2().floor(), most.log2().ceil());
    let x = |count: u64| left + WIDTH * (count as f64).log2() / 9.0;
    let y = |value: f64| top + HEIGHT * (most - value.log2()) / (most - least).max(1.0);
    let _ = writeln!(
        body,
        "<text class=\"panel\" x=\"{left:.0}\" y=\"{:.0}\">{title}</text>",
        top - 10.0
    );
    let mut power = least;
    while power <= most {
        let (at, label) = (y(power.exp2()), number(power.exp2()));
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{left:.0}\" y1=\"{at:.0}\" x2=\"{:.0}\" y2=\"{at:.0}\"/>\
             <text class=\"label\" x=\"{:.0}\" y=\"{:.0}\">{label}</text>",
            left + WIDTH,
            left - 6.0,
            at + 4.0
        );
        power += 2.0;
    }
    for count in CALLERS {
        let _ = writeln!(
            body,
            "<text class=\"middle\" x=\"{:.0}\" y=\"{:.0}\">{count}</text>",
            x(count),
            top + HEIGHT + 18.0
        );
    }
    for (side, colour) in SIDES.into_iter().zip(COLOURS) {
        let line: String = CALLERS
            .into_iter()
            .filter_map(|count| Some(format!("{:.0},{:.0} ", x(count), y(of(side, count)?))))
            .collect();
        let _ = writeln!(
            body,
            "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
    }
}
