//! [`draw`]: latency over the rate of arrivals as an SVG, legible on light and on dark pages.

use std::fmt::Write as _;

use crate::page::chart::STYLE;
use crate::parts::open_loop::{OpenLoop, Point, SIDES};
use crate::table::number;

/// The plot, in a picture of 820 by 380.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 590.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 330.0;

/// Microseconds at the bottom and at the top, by powers of ten.
const DECADES: std::ops::RangeInclusive<i32> = 0..=6;

const COLOURS: [&str; SIDES.len()] = ["#8c959f", "#bf8700", "#1a7f37", "#0969da", "#8250df"];

/// The p99 of each side as a line, the p50 as a dashed one.
pub fn draw(open_loop: &OpenLoop) -> String {
    let most = open_loop
        .points
        .iter()
        .map(|point| point.rate)
        .fold(1.0, f64::max);
    let x = |rate: f64| LEFT + (RIGHT - LEFT) * rate / most;
    let y = |microseconds: f64| {
        let share =
            microseconds.log10().clamp(0.0, f64::from(*DECADES.end())) / f64::from(*DECADES.end());
        BOTTOM - (BOTTOM - TOP) * share
    };
    let mut body = String::new();
    for decade in DECADES {
        let (at, label) = (y(10_f64.powi(decade)), number(10_f64.powi(decade)));
        let _ = writeln!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{at:.0}\" x2=\"{RIGHT}\" y2=\"{at:.0}\"/>"
        );
        let _ = writeln!(
            body,
            "<text class=\"label\" x=\"{}\" y=\"{:.0}\">{label}</text>",
            LEFT - 8.0,
            at + 4.0
        );
    }
    for share in [0.2, 0.4, 0.6, 0.8, 1.0] {
        let (at, label) = (x(share * most), number(share * most));
        let _ = writeln!(
            body,
            "<text class=\"middle\" x=\"{at:.0}\" y=\"{}\">{label}</text>",
            BOTTOM + 20.0
        );
    }
    for (side, (_, name)) in SIDES.iter().enumerate() {
        let colour = COLOURS[side];
        let of = |figure: fn(&Point) -> f64| {
            let points = open_loop.points.iter().filter(|point| point.side == side);
            points
                .map(|point| format!("{:.0},{:.0} ", x(point.rate), y(figure(point))))
                .collect::<String>()
        };
        for (dashes, line) in [
            ("none", of(|point| point.p99)),
            ("4 4", of(|point| point.p50)),
        ] {
            let _ = writeln!(
                body,
                "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
                 stroke-dasharray=\"{dashes}\"/>"
            );
        }
        let at = TOP + 20.0 * (side as f64 + 1.0);
        let _ = writeln!(
            body,
            "<rect x=\"{}\" y=\"{:.0}\" width=\"14\" height=\"4\" style=\"fill: {colour}\"/>",
            RIGHT + 20.0,
            at - 6.0
        );
        let _ = writeln!(
            body,
            "<text x=\"{}\" y=\"{at:.0}\">{name}</text>",
            RIGHT + 42.0
        );
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 380\" width=\"820\" \
         height=\"380\" role=\"img\" aria-label=\"Latency over the rate of \
         arrivals\">\n<style>{STYLE}  .grid {{ stroke: #8c959f; stroke-opacity: 0.3 }}\n  .middle \
         {{ text-anchor: middle }}\n</style>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"26\">Microseconds from the planned arrival to the \
         answer: p99, dashed p50</text>\n\
         <text class=\"middle\" x=\"{:.0}\" y=\"{}\">arrivals per second on one Redis, each on \
         another key</text>\n\
         {body}</svg>\n",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 42.0
    )
}
