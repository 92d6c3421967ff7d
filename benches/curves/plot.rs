//! The curves: co-location, the median wait and the busiest replica, a column for each spread.

use std::ops::Range;
use std::time::Duration;

use plotters::coord::ranged1d::{KeyPointHint, Ranged};
use plotters::prelude::*;

use super::report::Point;
use super::step::Policy;
use super::{SPREADS_MS, WINDOWS_MS};

const SIZE: (u32, u32) = (1120, 760);
const LEGEND: u32 = 40;
const FONT: &str = "sans-serif";
/// Where a wait of nothing stands on the logarithmic axis.
const NO_WAIT_MS: f64 = 0.4;

/// Draws the points of one fleet.
pub(crate) fn svg(points: &[&Point]) -> anyhow::Result<String> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (legend, panels) = root.split_vertically(LEGEND);
        draw_legend(&legend)?;
        let columns = SPREADS_MS.len();
        let panels = panels.split_evenly((ROWS.len(), columns));
        for (place, panel) in panels.iter().enumerate() {
            let Some(spread_ms) = SPREADS_MS.get(place % columns) else {
                continue;
            };
            let Some(row) = ROWS.get(place / columns) else {
                continue;
            };
            let spread = Duration::from_millis(*spread_ms);
            let of_panel = points.iter().filter(|point| point.step.spread == spread);
            let of_panel: Vec<&Point> = of_panel.copied().collect();
            let title = format!("arrivals over {spread_ms} ms");
            draw(panel, &of_panel, *row, &title, place % columns == 0)?;
        }
        root.present()?;
    }
    // What is said of every element is said once, and what is so anyway is not.
    let style = "<style>polyline{fill:none}text{font-family:sans-serif}</style>\n";
    let begin = text.find('\n').map_or(0, |end| end + 1);
    text.insert_str(begin, style);
    for said in [
        " opacity=\"1\"",
        " stroke=\"none\"",
        " fill=\"none\"",
        " font-family=\"sans-serif\"",
        " stroke-width=\"1\"",
    ] {
        text = text.replace(said, "");
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// What a row of panels shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Colocation,
    Wait,
    Busiest,
}

const ROWS: [Row; 3] = [Row::Colocation, Row::Wait, Row::Busiest];

impl Row {
    fn title(self) -> &'static str {
        match self {
            Self::Colocation => "co-location",
            Self::Wait => "median wait, ms",
            Self::Busiest => "busiest, fair shares",
        }
    }

    fn axis(self) -> Axis {
        match self {
            Self::Colocation => Axis::even(0.0..103.0, &[0.0, 25.0, 50.0, 75.0, 100.0]),
            Self::Wait => Axis::log(NO_WAIT_MS..2000.0, &[NO_WAIT_MS, 1.0, 10.0, 100.0, 1000.0]),
            Self::Busiest => Axis::even(0.98..1.5, &[1.0, 1.1, 1.2, 1.3, 1.4, 1.5]),
        }
    }

    fn label(self, value: f64) -> String {
        match self {
            Self::Colocation => format!("{value} %"),
            Self::Wait if value <= NO_WAIT_MS => "0".to_owned(),
            Self::Wait => value.to_string(),
            Self::Busiest => format!("{value:.1}"),
        }
    }

    fn value(self, point: &Point) -> f64 {
        match self {
            Self::Colocation => point.colocation * 100.0,
            Self::Wait => point.wait_ms(50).max(NO_WAIT_MS),
            Self::Busiest => point.busiest,
        }
    }
}

/// One panel.
fn draw(
    panel: &Area<'_>,
    points: &[&Point],
    row: Row,
    title: &str,
    is_first: bool,
) -> anyhow::Result<()> {
    let is_last = ROWS.last() == Some(&row);
    let mut chart = ChartBuilder::on(panel);
    chart
        .margin(6)
        .margin_right(12)
        .x_label_area_size(if is_last { 46 } else { 26 })
        .y_label_area_size(if is_first { 70 } else { 50 });
    if ROWS.first() == Some(&row) {
        chart.caption(title, (FONT, 18));
    }
    let x = Axis::log(0.9..1700.0, &[1.0, 10.0, 100.0, 1000.0]);
    let mut chart = chart.build_cartesian_2d(x, row.axis())?;
    let label = |value: &f64| row.label(*value);
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 16))
        .y_label_formatter(&label);
    if is_last {
        mesh.x_desc("window, ms");
    }
    if is_first {
        mesh.y_desc(row.title());
    }
    mesh.draw()?;
    let (windows, dashes): (Vec<_>, Vec<_>) = Policy::ALL
        .into_iter()
        .partition(|policy| policy.has_window());
    for policy in windows.into_iter().chain(dashes) {
        let style = style(policy);
        let of_policy = points.iter().filter(|point| point.policy == policy);
        let place = |point: &&Point| {
            let window = point.window.unwrap_or_default();
            (window.as_millis() as f64, row.value(point))
        };
        let line: Vec<(f64, f64)> = of_policy.map(place).collect();
        if policy.has_window() {
            chart.draw_series(LineSeries::new(line.clone(), style))?;
            let dot = |at: (f64, f64)| Circle::new(at, 2, style.filled());
            chart.draw_series(line.into_iter().map(dot))?;
        } else if let Some((_, y)) = line.first() {
            // The same whatever the window.
            let ends = [WINDOWS_MS.first(), WINDOWS_MS.last()]
                .into_iter()
                .flatten();
            let line: Vec<(f64, f64)> = ends.map(|x| (*x as f64, *y)).collect();
            chart.draw_series(DashedLineSeries::new(line, 10, 8, style))?;
        }
    }
    Ok(())
}

fn draw_legend(area: &Area<'_>) -> anyhow::Result<()> {
    let mut x = 40;
    for policy in Policy::ALL {
        let style = style(policy);
        let y = 22;
        if policy.has_window() {
            area.draw(&PathElement::new(vec![(x, y), (x + 26, y)], style))?;
            area.draw(&Circle::new((x + 13, y), 2, style.filled()))?;
        } else {
            for dash in [x, x + 9, x + 18] {
                area.draw(&PathElement::new(vec![(dash, y), (dash + 6, y)], style))?;
            }
        }
        area.draw(&Text::new(policy.name(), (x + 32, y - 7), (FONT, 17)))?;
        x += 52 + 8 * i32::try_from(policy.name().len()).unwrap_or(0);
    }
    Ok(())
}

/// Colours that the colour-blind tell apart (Okabe and Ito). Curves that lie on each other are
/// drawn ever thinner.
fn style(policy: Policy) -> ShapeStyle {
    let (color, width) = match policy {
        Policy::NoFilter => (RGBColor(120, 120, 120), 2),
        Policy::HoldNone => (RGBColor(0, 158, 115), 3),
        Policy::Reference => (RGBColor(213, 94, 0), 2),
        Policy::Memory => (RGBColor(0, 114, 178), 5),
        Policy::Quiet => (RGBColor(86, 180, 233), 3),
        Policy::Told => (RGBColor(0, 0, 0), 1),
    };
    color.stroke_width(width)
}

/// An axis with just these labels.
struct Axis {
    range: Range<f64>,
    labels: Vec<f64>,
    is_log: bool,
}

impl Axis {
    fn log(range: Range<f64>, labels: &[f64]) -> Self {
        let labels = labels.to_vec();
        Self {
            range,
            labels,
            is_log: true,
        }
    }

    fn even(range: Range<f64>, labels: &[f64]) -> Self {
        let labels = labels.to_vec();
        Self {
            range,
            labels,
            is_log: false,
        }
    }

    fn place(&self, value: f64) -> f64 {
        let of = |value: f64| if self.is_log { value.ln() } else { value };
        let (low, high) = (of(self.range.start), of(self.range.end));
        (of(value) - low) / (high - low)
    }
}

impl Ranged for Axis {
    type FormatOption = plotters::coord::ranged1d::NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.place(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // Light lines, between the labels, are not drawn.
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.labels.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl plotters::coord::ranged1d::ValueFormatter<f64> for Axis {
    fn format(value: &f64) -> String {
        value.to_string()
    }
}
