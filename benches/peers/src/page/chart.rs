//! [`draw`]: bars of decisions per second as an SVG, legible on light and on dark pages.

use std::fmt::Write as _;

use ratelimit_runtime::Algorithm;

use crate::parts::throughput::Throughput;
use crate::peer::Kind;
use crate::table::number;
use crate::work::{DISTINCT, HOT, Keys};

const SIDES: [(Kind, &str); 6] = [
    (Kind::Ping, "PING"),
    (Kind::ArticleZset, "ZSET Lua from articles"),
    (Kind::ArticleIncr, "INCR Lua from articles"),
    (Kind::RedisCell, "redis-cell"),
    (
        Kind::OnRedis(Algorithm::SlidingWindow),
        "this crate, sliding_window",
    ),
    (
        Kind::OnRedis(Algorithm::LeakyBucket),
        "this crate, leaky_bucket",
    ),
];

const PANELS: [(Keys, u64, &str); 4] = [
    (DISTINCT, 64, "every call on another key, 64 callers"),
    (DISTINCT, 512, "every call on another key, 512 callers"),
    (HOT, 512, "all on one key, 512 callers"),
    (Keys::Exhausted, 64, "refused again, 64 callers"),
];

const WIDTH: u32 = 820;
/// Where bars start, and how long the longest is.
const LABELS: u32 = 210;
const LONGEST: f64 = 540.0;
const BAR: u32 = 14;
const LINE: u32 = 20;
const HEAD: u32 = 34;

pub const STYLE: &str = "
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .panel { font-weight: 600 }
  .label { text-anchor: end }
  .ours { font-weight: 600 }
  rect { fill: #8c959f }
  rect.ours { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    rect { fill: #6e7681 }
    rect.ours { fill: #4493f8 }
  }
";

/// A panel for each work, each with a scale of its own.
pub fn draw(throughput: &Throughput) -> String {
    let mut body = String::new();
    let mut y = 50;
    for (keys, callers, title) in PANELS {
        let rates: Vec<(Kind, &str, f64)> = SIDES
            .into_iter()
            .filter_map(|(kind, name)| {
                Some((kind, name, throughput.of(kind, keys, callers)?.per_second))
            })
            .collect();
        let most = rates.iter().map(|(.., rate)| *rate).fold(1.0, f64::max);
        let _ = writeln!(
            body,
            "<text class=\"panel\" x=\"{LABELS}\" y=\"{}\">{title}</text>",
            y + 14
        );
        y += HEAD - 12;
        for (kind, name, rate) in rates {
            let class = if matches!(kind, Kind::OnRedis(_)) {
                "ours"
            } else {
                "theirs"
            };
            let width = (rate / most * LONGEST).max(1.0);
            let text = y + BAR - 3;
            let _ = writeln!(
                body,
                "<text class=\"label {class}\" x=\"{}\" y=\"{text}\">{name}</text>",
                LABELS - 8
            );
            let _ = writeln!(
                body,
                "<rect class=\"{class}\" x=\"{LABELS}\" y=\"{y}\" width=\"{width:.0}\" \
                 height=\"{BAR}\" rx=\"2\"/>"
            );
            let end = f64::from(LABELS) + width + 6.0;
            let _ = writeln!(
                body,
                "<text class=\"{class}\" x=\"{end:.0}\" y=\"{text}\">{}</text>",
                number(rate)
            );
            y += LINE;
        }
        y += HEAD - 18;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y}\" width=\"{WIDTH}\" \
         height=\"{y}\" role=\"img\" aria-label=\"Decisions per second on one \
         Redis\">\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"{LABELS}\" y=\"26\">Decisions per second on one Redis, longer \
         is better</text>\n\
         {body}</svg>\n"
    )
}
