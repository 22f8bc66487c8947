// How a score comes about: the parts of the base, and what each factor adds, beside each other.
import type { Explanation } from "./types";

interface Part {
  name: string;
  /** What it adds to the score, less than 0 if it lowers it. */
  adds: number;
}

/** The parts of a score. Their sum is the product of all factors. */
export function partsOf(explain: Explanation): Part[] {
  const base: Part[] = [
    { name: "similarity", adds: explain.similarity * explain.similarity_weight },
    { name: "heat", adds: explain.heat * explain.heat_weight },
  ];
  let score = base.reduce((sum, part) => sum + part.adds, 0);
  const factors: [string, number][] = [
    ["keywords", explain.keyword_factor],
    ["time", explain.temporal_factor],
    ["namespace", explain.namespace_factor],
    ["context", explain.context_factor],
    ["superseded", explain.superseded_factor],
  ];
  const added = factors.map(([name, factor]) => {
    const adds = score * (factor - 1);
    score += adds;
    return { name, adds };
  });
  return [...base, ...added].filter((part) => Math.abs(part.adds) > 1e-9);
}

export function formulaOf(explain: Explanation): string {
  const { graph } = explain;
  if (graph) {
    return `${round(graph.seed_score)} of the result it is linked to · ${round(graph.edge_weight)} weight of the edge · ${round(graph.damping)} damping = ${round(explain.fused_score)}`;
  }
  const base = `(${round(explain.similarity)} · ${explain.similarity_weight} similarity + ${round(explain.heat)} · ${explain.heat_weight} heat)`;
  const factors: [number, string][] = [
    [explain.keyword_factor, "keywords"],
    [explain.temporal_factor, "time"],
    [explain.namespace_factor, "namespace"],
    [explain.context_factor, "context"],
    [explain.superseded_factor, "superseded"],
  ];
  const others = factors.filter(([factor]) => factor !== 1).map(([factor, name]) => ` · ${round(factor)} ${name}`);
  return `${base}${others.join("")} = ${round(explain.fused_score)}`;
}

const round = (value: number): string => String(Number(value.toFixed(3)));

export function Explain({ explain, most }: { explain: Explanation; most: number }) {
  const parts = explain.graph ? [{ name: "graph", adds: explain.fused_score }] : partsOf(explain);
  return (
    <div class="explain">
      <div class="stack" aria-hidden="true" style={{ width: `${(100 * explain.fused_score) / most}%` }}>
        {parts
          .filter((part) => part.adds > 0)
          .map((part) => (
            <span class={`part ${part.name}`} style={{ flexGrow: String(part.adds) }} title={`${part.name} ${round(part.adds)}`} />
          ))}
      </div>
      <small>{formulaOf(explain)}</small>
    </div>
  );
}

export function ExplainLegend() {
  const names = ["similarity", "heat", "keywords", "time", "namespace", "context", "graph"];
  return (
    <ul class="legend">
      {names.map((name) => (
        <li>
          <span class={`dot part ${name}`} /> {name}
        </li>
      ))}
    </ul>
  );
}
