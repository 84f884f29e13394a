//! The chart: a line for each rule, with the share of requests that it refuses over time.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::replay::candidate::{Candidate, Outcome};
use crate::replay::log::Log;
use crate::replay::report::{percent, share, wait};
use crate::replay::slices::{PERCENT, Slices};
use crate::replay::time::moment;

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

const INK: RGBColor = RGBColor(28, 39, 51);
const SOFT: RGBColor = RGBColor(86, 101, 122);
const GRID: RGBColor = RGBColor(213, 221, 230);

/// In pixels: the width, the height of the lines, and those of the title and of each name above.
const WIDTH: u32 = 960;
const HEIGHT: u32 = 420;
const TITLE: i32 = 48;
const ROW: i32 = 24;

/// Draws the chart as SVG.
pub(crate) fn svg(
    log: &Log,
    rules: &[Candidate],
    outcomes: &[Outcome],
) -> Result<String, Box<dyn Error>> {
    let slices = Slices::of(log);
    let lines: Vec<Vec<(u64, u64)>> = outcomes
        .iter()
        .map(|outcome| slices.shares(outcome))
        .collect();
    let names: Vec<Name<'_>> = rules
        .iter()
        .zip(outcomes)
        .zip(&lines)
        .zip(COLORS.iter().cycle())
        .map(|(((rule, outcome), line), color)| Name {
            rule: &rule.text,
            all: share(outcome.refused(), log.requests().len()),
            most: line.iter().map(|(_, share)| *share).max().unwrap_or(0),
            color: *color,
        })
        .collect();
    let shares = share_ticks(names.iter().map(|name| name.most).max().unwrap_or(0));
    let top = shares.last().copied().unwrap_or(100 * PERCENT);

    let head = TITLE + ROW * i32::try_from(names.len())?;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT + u32::try_from(head)?))
            .into_drawing_area();
        area.fill(&WHITE)?;
        let (above, below) = area.split_vertically(head);
        legend(&above, &names)?;
        let mut chart = ChartBuilder::on(&below)
            .margin(16)
            .margin_right(40)
            .x_label_area_size(48)
            .y_label_area_size(80)
            .build_cartesian_2d(
                (slices.first..slices.last + 1).with_key_points(slices.labels()),
                (0..top).with_key_points(shares),
            )?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(SOFT)
            .label_style(("sans-serif", 15, &SOFT))
            .axis_desc_style(("sans-serif", 15, &INK))
            .x_desc(slices.days())
            .x_label_formatter(&|at| moment(*at).strftime(slices.time_format()).to_string())
            .y_desc(format!(
                "refused, in % of the requests in each {}",
                wait(slices.length())
            ))
            .y_label_formatter(&|share| format!("{} %", in_percent(*share)))
            .draw()?;
        for (name, line) in names.iter().zip(lines) {
            // A line of one point would be invisible.
            if let [point] = line[..] {
                chart.draw_series([Circle::new(point, 4, name.color.filled())])?;
            }
            chart.draw_series(LineSeries::new(line, name.color.stroke_width(2)))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// A rule, and how much it refuses.
struct Name<'a> {
    rule: &'a str,
    /// The share of all requests, in percent.
    all: f64,
    /// The highest share in a slice, in [`PERCENT`]s.
    most: u64,
    color: RGBColor,
}

/// The title, and below it a row for each rule.
fn legend<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    names: &[Name<'_>],
) -> Result<(), Box<dyn Error>>
where
    DB::ErrorType: 'static,
{
    area.draw(&Text::new(
        "Requests refused",
        (24, 16),
        ("sans-serif", 22).into_font().color(&INK),
    ))?;
    let font = ("sans-serif", 16).into_font();
    let widths = names
        .iter()
        .map(|name| area.estimate_text_size(name.rule, &font.clone().into()));
    let widest = widths
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .map(|(width, _)| width)
        .max()
        .unwrap_or(0);
    let numbers = 64 + i32::try_from(widest)? + 24;
    for (name, y) in names.iter().zip((0..).map(|row| TITLE + ROW * row)) {
        area.draw(&PathElement::new(
            [(24, y + 7), (52, y + 7)],
            name.color.stroke_width(3),
        ))?;
        area.draw(&Text::new(name.rule, (64, y), font.clone().color(&INK)))?;
        let text = format!(
            "{} in all, {} at most",
            percent(name.all),
            percent(in_percent(name.most))
        );
        area.draw(&Text::new(text, (numbers, y), font.clone().color(&SOFT)))?;
    }
    Ok(())
}

/// Round shares to write on the axis: from 0 to no less than the highest, in at most five steps.
/// They never exceed 100 %.
fn share_ticks(highest: u64) -> Vec<u64> {
    let highest = if highest == 0 { PERCENT } else { highest };
    let mut steps = (0..8).flat_map(|zeros| [1, 2, 5].map(|step| step * 10_u64.pow(zeros)));
    let step = steps
        .find(|step| highest.div_ceil(*step) <= 5)
        .unwrap_or(100 * PERCENT);
    (0..=highest.div_ceil(step)).map(|n| n * step).collect()
}

#[allow(clippy::cast_precision_loss, reason = "at most 100 millions")]
fn in_percent(share: u64) -> f64 {
    share as f64 / PERCENT as f64
}
