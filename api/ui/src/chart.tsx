// Line charts over time, by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "./hooks";

export interface Series {
  label: string;
  values: (number | null)[];
  /** Of a line that is expected, and not measured. */
  isDashed?: boolean;
}

const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4"];
const colourOf = (number: number) => COLOURS[number % COLOURS.length] ?? "--line-1";
const HEIGHT = 180;
const AXIS_MARGIN = 2;

/** The width of an axis whose longest label just fits. uPlot draws twice: with the labels of the first time. */
function fittingWidth(plot: uPlot, labels: string[], at: number, cycle: number): number {
  const axis = plot.axes[at] as uPlot.Axis & { _size: number; font: [string] };
  if (cycle > 1) return axis._size;
  plot.ctx.font = axis.font[0];
  const widths = (labels ?? []).map((label) => plot.ctx.measureText(label).width / devicePixelRatio);
  return Math.ceil(Math.max(0, ...widths) + (axis.ticks?.size ?? 0) + (axis.gap ?? 0) + AXIS_MARGIN);
}

/** `at` is in seconds since 1970. `summary` says in words what the lines show. */
export function Chart(props: {
  at: number[];
  series: Series[];
  summary: string;
  range?: [number, number];
  format?: (value: number) => string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const { at, series, range, format, summary } = props;
  const theme = useTheme();
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const colour = (name: string) => style.getPropertyValue(name);
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--border"), width: 1 }, ticks: { stroke: colour("--border") } };
    const options: uPlot.Options = {
      width: element.clientWidth,
      height: HEIGHT,
      cursor: { y: false },
      legend: { show: false },
      scales: range ? { y: { range } } : {},
      axes: [axis, { ...axis, size: fittingWidth, ...(format && { values: (_, ticks) => ticks.map(format) }) }],
      series: [
        {},
        ...series.map((line, number) => ({
          label: line.label,
          stroke: colour(colourOf(number)),
          width: 2,
          points: { show: false },
          ...(line.isDashed && { dash: [6, 4] }),
          ...(format && { value: (_: uPlot, value: number | null) => (value === null ? "" : format(value)) }),
        })),
      ],
    };
    const chart = new uPlot(options, [at, ...series.map((line) => line.values)], element);
    const resized = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      chart.destroy();
    };
  }, [at, series, theme]);
  return (
    <>
      <div class="chart" ref={box} role="img" aria-label={summary} />
      {series.length > 1 && (
        <ul class="legend">
          {series.map((line, number) => (
            <li>
              <span class={line.isDashed ? "dot dashed" : "dot"} style={{ color: `var(${colourOf(number)})` }} /> {line.label}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}
