//! The chart: what share each rule refuses over time, a line for each.

use std::error::Error;
use std::time::Duration;

use plotters::prelude::*;

use crate::candidate::{Candidate, Outcome};
use crate::log::Log;
use crate::time::moment;

/// Into how many slices of time the log is cut.
const SLICES: usize = 100;

/// Told apart also by the colour-blind (Okabe and Ito).
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// Draws it, as SVG.
pub(crate) fn svg(log: &Log, rules: &[Candidate], outcomes: &[Outcome]) -> Result<String, Box<dyn Error>> {
    let slices = Slices::of(log);
    let lines: Vec<Vec<(u64, f64)>> = outcomes.iter().map(|outcome| slices.shares(outcome)).collect();
    let highest = lines.iter().flatten().map(|(_, share)| *share).fold(1.0, f64::max);
    // Above the lines there is room for their names.
    let top = highest * (1.1 + 0.06 * f64::from(u32::try_from(rules.len())?));

    let times = slices.first..slices.last + 1;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (960, 480)).into_drawing_area();
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(&area)
            .caption("Requests refused", ("sans-serif", 20))
            .margin(16)
            .margin_right(40)
            .x_label_area_size(32)
            .y_label_area_size(56)
            .build_cartesian_2d(times.with_key_points(slices.labels()), 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_label_formatter(&|at| moment(*at).strftime(slices.time_format()).to_string())
            .y_label_formatter(&|share| format!("{share:.0} %"))
            .draw()?;
        for ((rule, line), color) in rules.iter().zip(lines).zip(COLORS.iter().cycle()) {
            let style = color.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line, style))?
                .label(&rule.text)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        area.present()?;
    }
    Ok(svg)
}

/// The log, cut into slices of equal length.
struct Slices {
    first: u64,
    last: u64,
    length: u64,
    requests: [u32; SLICES],
}

impl Slices {
    fn of(log: &Log) -> Self {
        let (first, last) = log.span();
        let length = (last - first) / SLICES as u64 + 1;
        let mut slices = Self { first, last, length, requests: [0; SLICES] };
        slices.requests = slices.counts(log.requests().iter().map(|request| request.at));
        slices
    }

    /// How many of these times are in each slice.
    fn counts(&self, times: impl Iterator<Item = u64>) -> [u32; SLICES] {
        let mut counts = [0; SLICES];
        for at in times {
            let index = usize::try_from((at - self.first) / self.length).unwrap_or(usize::MAX);
            counts[index] += 1;
        }
        counts
    }

    /// In percent, at the middle of each slice that has requests.
    fn shares(&self, outcome: &Outcome) -> Vec<(u64, f64)> {
        let middles = (0..).map(|index| self.first + self.length * index + self.length / 2);
        let refused = self.counts(outcome.refused_at.iter().copied());
        let slices = middles.zip(refused).zip(self.requests).filter(|(_, requests)| *requests > 0);
        slices.map(|((at, refused), requests)| (at, 100.0 * f64::from(refused) / f64::from(requests))).collect()
    }

    fn span(&self) -> u64 {
        self.last - self.first
    }

    /// Round times to write on the axis, at most nine.
    fn labels(&self) -> Vec<u64> {
        let (minute, hour, day) = (60, 3600, 86_400);
        let seconds = [1, 2, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute];
        let hours = [1, 2, 3, 6, 12].map(|hours| hours * hour);
        let days = (1..).map(|days| days * day);
        let mut steps = seconds.into_iter().chain(hours).chain(days).map(|seconds| seconds * 1_000_000);
        let step = steps.find(|step| self.span() / step <= 8).unwrap_or(u64::MAX);
        (self.first.div_ceil(step)..=self.last / step).map(|n| n * step).collect()
    }

    fn time_format(&self) -> &'static str {
        match Duration::from_micros(self.span()).as_secs() {
            ..600 => "%H:%M:%S",
            600..172_800 => "%H:%M",
            _ => "%m-%d %H:%M",
        }
    }
}
