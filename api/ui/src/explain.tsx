// How a score comes about: the parts of the base, and what each factor adds, beside each other.
import type { Explanation } from "./types";

interface Part {
  name: string;
  /** What it adds to the score; less than 0 if it lowers it. */
  adds: number;
}

/** The factors of a score after its base, by the names that people read. */
function factorsOf(explain: Explanation): [string, number][] {
  const own = 1 + explain.keyword_weight * explain.own;
  return [
    ["keywords", own],
    ["neighbours", explain.keyword_factor / own],
    ["time", explain.temporal_factor],
    ["namespace", explain.namespace_factor],
    ["superseded", explain.superseded_factor],
  ];
}

/** The parts of a score. Their sum is the product of all factors. */
function partsOf(explain: Explanation): Part[] {
  if (explain.graph) return [{ name: "graph", adds: explain.fused_score }];
  const base: Part[] = [
    { name: "similarity", adds: explain.similarity * explain.similarity_weight },
    { name: "heat", adds: explain.heat * explain.heat_weight },
  ];
  let score = base.reduce((sum, part) => sum + part.adds, 0);
  const added = factorsOf(explain).map(([name, factor]) => {
    const adds = score * (factor - 1);
    score += adds;
    return { name, adds };
  });
  return [...base, ...added];
}

function formulaOf(explain: Explanation): string {
  const { graph } = explain;
  if (graph) {
    return `${round(graph.seed_score)} of the result it is linked to · ${round(graph.edge_weight)} weight of the edge · ${round(graph.damping)} damping = ${round(explain.fused_score)}`;
  }
  const base = `(${round(explain.similarity)} · ${explain.similarity_weight} similarity + ${round(explain.heat)} · ${explain.heat_weight} heat)`;
  const factors = factorsOf(explain).filter(([, factor]) => factor !== 1);
  return `${base}${factors.map(([name, factor]) => ` · ${round(factor)} ${name}`).join("")} = ${round(explain.fused_score)}`;
}

const round = (value: number): string => String(Number(value.toFixed(3)));

/** Bars as long as what each part adds: `longest` is the score that fills the width. What lowers the score is hatched. */
export function Explain({ explain, longest }: { explain: Explanation; longest: number }) {
  const parts = partsOf(explain).filter((part) => Math.abs(part.adds) > 1e-9);
  const before = parts.reduce((sum, part) => sum + Math.max(0, part.adds), 0);
  return (
    <div class="explain">
      <div class="stack" aria-hidden="true">
        {parts
          .filter((part) => part.adds > 0)
          .map((part) => (
            <span
              class={`part ${part.name}`}
              style={{ width: `${(100 * part.adds * explain.fused_score) / before / longest}%` }}
              title={`${part.name} ${round(part.adds)}`}
            />
          ))}
        {before > explain.fused_score + 1e-9 && (
          <span class="part superseded" style={{ width: `${(100 * (before - explain.fused_score)) / longest}%` }} title="superseded" />
        )}
      </div>
      <small>{formulaOf(explain)}</small>
    </div>
  );
}

export function ExplainLegend() {
  const names = ["similarity", "heat", "keywords", "neighbours", "time", "namespace", "superseded", "graph"];
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
