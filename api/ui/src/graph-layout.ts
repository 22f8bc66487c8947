// A force layout on a canvas: positions, drawing, and what the pointer does. d3-force moves the points.
import {
  forceCenter,
  forceCollide,
  forceLink,
  forceManyBody,
  forceSimulation,
  type Simulation,
  type SimulationLinkDatum,
  type SimulationNodeDatum,
} from "d3-force";
import { band } from "./format";
import { type Memory, MEMORY_TYPES } from "./types";

export interface Point extends SimulationNodeDatum {
  memory: Memory;
  radius: number;
}

interface Edge extends SimulationLinkDatum<Point> {
  weight: number;
}

interface Link {
  source: string;
  target: string;
  weight: number;
}

/** Beyond this distance points do not repel each other. */
const REPULSION_DISTANCE = 300;

export class Layout {
  points: Point[] = [];
  edges: Edge[] = [];
  /** Pixels of the canvas per unit, and where the centre is. */
  scale = 1;
  x = 0;
  y = 0;
  private dragged: Point | null = null;
  private moved: { x: number; y: number } | null = null;
  private frame = 0;
  private readonly simulation: Simulation<Point, Edge>;
  private readonly resized: ResizeObserver;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly paint: () => void,
  ) {
    this.simulation = forceSimulation<Point, Edge>()
      .force("repel", forceManyBody<Point>().strength(-30).distanceMax(REPULSION_DISTANCE).theta(1.1))
      .force("centre", forceCenter(0, 0).strength(0.05))
      .force("collide", forceCollide<Point>((point) => point.radius + 1))
      .on("tick", () => this.redraw());
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(canvas);
    this.resize();
  }

  stop() {
    this.simulation.stop();
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** Shows these memories; those that were shown stay where they are. */
  set(memories: Memory[], links: Link[]) {
    const before = new Map(this.points.map((point) => [point.memory.id, point]));
    this.points = memories.map((memory) => ({ ...before.get(memory.id), memory, radius: 3 + 5 * memory.heat }));
    const byId = new Map(this.points.map((point) => [point.memory.id, point]));
    this.edges = links.flatMap(({ source, target, weight }) => {
      const [one, other] = [byId.get(source), byId.get(target)];
      return one && other ? [{ source: one, target: other, weight }] : [];
    });
    this.simulation.nodes(this.points);
    this.simulation.force("link", forceLink<Point, Edge>(this.edges).distance(40).strength(0.3));
    this.simulation.alpha(1).restart();
  }

  redraw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(this.paint);
  }

  get isDragging(): boolean {
    return this.dragged !== null || this.moved !== null;
  }

  /** The point under the pointer. */
  at(event: MouseEvent): Point | null {
    const { x, y } = this.position(event);
    const near = this.points.filter((point) => Math.hypot((point.x ?? 0) - x, (point.y ?? 0) - y) <= point.radius + 4 / this.scale);
    return near.at(-1) ?? null;
  }

  press(event: PointerEvent): Point | null {
    this.canvas.setPointerCapture(event.pointerId);
    this.dragged = this.at(event);
    this.moved = this.dragged ? null : { x: event.clientX, y: event.clientY };
    return this.dragged;
  }

  /** Moves the dragged point, or the whole. */
  drag(event: PointerEvent) {
    if (this.dragged) {
      const { x, y } = this.position(event);
      this.dragged.fx = x;
      this.dragged.fy = y;
      this.simulation.alphaTarget(0.2).restart();
    } else if (this.moved) {
      this.x += event.clientX - this.moved.x;
      this.y += event.clientY - this.moved.y;
      this.moved = { x: event.clientX, y: event.clientY };
      this.redraw();
    }
  }

  release(event: PointerEvent) {
    this.canvas.releasePointerCapture(event.pointerId);
    this.dragged = null;
    this.moved = null;
    this.simulation.alphaTarget(0);
  }

  /** Frees a point that stays where it was dragged. */
  free(event: MouseEvent) {
    const point = this.at(event);
    if (!point) return;
    point.fx = null;
    point.fy = null;
    this.simulation.alpha(0.3).restart();
  }

  zoom(event: WheelEvent) {
    event.preventDefault();
    this.zoomBy(2 ** (-event.deltaY / 400));
  }

  zoomBy(factor: number) {
    this.scale = Math.min(8, Math.max(0.1, this.scale * factor));
    this.redraw();
  }

  private position(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return {
      x: (event.clientX - box.left - box.width / 2 - this.x) / this.scale,
      y: (event.clientY - box.top - box.height / 2 - this.y) / this.scale,
    };
  }

  private resize() {
    const ratio = devicePixelRatio;
    this.canvas.width = this.canvas.clientWidth * ratio;
    this.canvas.height = this.canvas.clientHeight * ratio;
    this.redraw();
  }
}

export function draw(view: Layout, colour: (memory: Memory) => string, chosen: string | null) {
  const context = view.canvas.getContext("2d");
  if (!context) return;
  const { width, height } = view.canvas;
  const style = getComputedStyle(view.canvas);
  const ratio = devicePixelRatio;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  context.setTransform(view.scale * ratio, 0, 0, view.scale * ratio, width / 2 + view.x * ratio, height / 2 + view.y * ratio);
  context.strokeStyle = style.getPropertyValue("--edge");
  context.lineWidth = 1 / view.scale;
  context.beginPath();
  for (const { source, target } of view.edges) {
    const [one, other] = [source as Point, target as Point];
    context.moveTo(one.x ?? 0, one.y ?? 0);
    context.lineTo(other.x ?? 0, other.y ?? 0);
  }
  context.stroke();
  // All points of one colour at once.
  const colours = new Map<string, Point[]>();
  for (const point of view.points) {
    const name = colour(point.memory);
    const points = colours.get(name);
    if (points) points.push(point);
    else colours.set(name, [point]);
  }
  for (const [name, points] of colours) {
    context.fillStyle = name.startsWith("--") ? style.getPropertyValue(name) : name;
    context.beginPath();
    for (const { x = 0, y = 0, radius } of points) {
      context.moveTo(x + radius, y);
      context.arc(x, y, radius, 0, 2 * Math.PI);
    }
    context.fill();
  }
  const point = view.points.find(({ memory }) => memory.id === chosen);
  if (point) {
    context.strokeStyle = style.getPropertyValue("--text");
    context.lineWidth = 2 / view.scale;
    context.beginPath();
    context.arc(point.x ?? 0, point.y ?? 0, point.radius + 3, 0, 2 * Math.PI);
    context.stroke();
  }
}

/** What of a memory its colour stands for. */
export const nameOf = (memory: Memory, by: "type" | "namespace"): string => (by === "type" ? memory.memory_type : memory.namespace);

/** A colour, or the variable of one. */
export function colourOf(memory: Memory, by: "heat" | "type" | "namespace"): string {
  if (by === "heat") return `--${band(memory.heat)}`;
  if (by === "type") return `--type-${MEMORY_TYPES.indexOf(memory.memory_type) + 1}`;
  let hash = 0;
  // The golden angle: names that differ a little have colours that differ.
  for (const character of memory.namespace) hash = (hash * 31 + (character.codePointAt(0) ?? 0)) >>> 0;
  return `hsl(${Math.round(hash * 137.508) % 360} 60% 50%)`;
}
