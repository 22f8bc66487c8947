// Heat: the thermodynamic configuration, with a preview of what a change would cool and archive, and
// what recalls suggest.
import { useState } from "preact/hooks";
import { Card, Confirm, Empty, ErrorBox, Field, Page, Show, Table } from "../components";
import { count, duration, percent } from "../format";
import { RequestError } from "../errors";
import { useAction, useLoad, useSettled } from "../hooks";
import { may, useClient, useSession } from "../session";
import type { Forecast, RecallAnalytics, SettingsView } from "../types";

type Texts = Record<string, string>;
/** Values by their paths; null restores the default. */
type Changes = Record<string, number | string | boolean | null>;
type Tree = { [name: string]: Tree | number | string | boolean | null };

export function HeatPage() {
  const client = useClient();
  const loaded = useLoad((signal) => client.get<SettingsView>("/api/v1/settings/thermo", {}, signal));
  // What the person wrote, by the path of the setting.
  const [texts, setTexts] = useState<Texts>({});
  return (
    <Page title="Heat">
      <Show loaded={loaded}>
        {(settings) => (
          <div class="grid">
            <Configuration settings={settings} texts={texts} setTexts={setTexts} reload={loaded.reload} />
            <Recalls suggest={(setting, value) => setTexts({ ...texts, [setting]: String(value) })} changes={loaded.data} />
          </div>
        )}
      </Show>
    </Page>
  );
}

/** The path of a setting, and its value. */
type Leaf = [string, number | string | boolean | null];

/** Groups that are open at first. */
const OPEN = ["decay_profiles", "consolidation"];
/** Always null: permanent memories do not cool. */
const FIXED = "decay_classes.permanent";

/** The values of a tree by their paths, as in `decay_profiles.fact.half_life`. */
function leaves(tree: Tree, path = ""): Leaf[] {
  return Object.entries(tree).flatMap(([name, value]) => {
    const full = path ? `${path}.${name}` : name;
    return value !== null && typeof value === "object" ? leaves(value, full) : [[full, value] as Leaf];
  });
}

const UNITS: [RegExp, string][] = [
  [/half_life$/, "seconds"],
  [/\.interval$|min_interval$|_seconds$/, "seconds"],
  [/_days$/, "days"],
  [/floor$|threshold$|gate$/, "heat, 0 to 1"],
  [/decay_classes/, "factor of the half-life"],
];

interface ConfigurationProps {
  settings: SettingsView;
  texts: Texts;
  setTexts: (texts: Texts) => void;
  reload: () => void;
}

function Configuration({ settings, texts, setTexts, reload }: ConfigurationProps) {
  const session = useSession();
  const { client } = session;
  const canChange = may(session, "admin");
  const present = leaves(settings.config as Tree);
  const defaults = new Map(leaves(settings.defaults as Tree));
  const changed = present.filter(([path, value]) => texts[path] !== undefined && texts[path] !== shown(value));
  const values = changed.map(([path, value]): Leaf => [path, typed(texts[path] ?? "", value)]);
  const wrong = values.find(([, value]) => typeof value === "number" && !Number.isFinite(value));
  const body: Changes = Object.fromEntries(values);
  const save = useAction(async (changes: Changes) => {
    await client.act("PATCH", "/api/v1/settings/thermo", changes);
    setTexts({});
    reload();
  });
  const groups = [...new Set(present.map(([path]) => path.split(".")[0] ?? ""))];
  const reset = () => save.run(Object.fromEntries(present.map(([path]) => [path, null])));
  return (
    <Card
      title="Configuration"
      wide
      actions={settings.custom ? <span class="state">changed from the defaults</span> : <span class="state good">defaults</span>}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save.run(body);
        }}
      >
        {groups.map((group) => (
          <details open={OPEN.includes(group)}>
            <summary>{words(group)}</summary>
            {subgroups(present, group).map(([name, settings]) => (
              <fieldset class="settings">
                {name && <legend>{name}</legend>}
                {settings.map(([path, value]) => (
                  <Setting
                    path={path}
                    value={value}
                    text={texts[path] ?? shown(value)}
                    initial={shown(defaults.get(path) ?? null)}
                    isFixed={!canChange || path === FIXED}
                    set={(text) => setTexts({ ...texts, [path]: text })}
                  />
                ))}
              </fieldset>
            ))}
          </details>
        ))}
        {wrong && <ErrorBox error={new Error(`${wrong[0]} is no number.`)} />}
        {changed.length > 0 && !wrong && <Preview body={body} />}
        <ErrorBox error={save.error} />
        {changed.length > 0 && (
          <div class="actions sticky">
            <button type="submit" class="primary" disabled={save.isRunning || wrong !== undefined}>
              Save {changed.length === 1 ? "the change" : `${changed.length} changes`}
            </button>
            <button type="button" onClick={() => setTexts({})}>
              Undo
            </button>
          </div>
        )}
        {canChange && settings.custom && changed.length === 0 && (
          <div class="actions">
            <Confirm label="Restore the defaults" question="All values become the defaults." run={reset} />
          </div>
        )}
      </form>
    </Card>
  );
}

/** Settings below a group, by the name in between, as `fact` in `decay_profiles.fact.floor`. */
function subgroups(all: Leaf[], group: string): [string, Leaf[]][] {
  const found = new Map<string, Leaf[]>();
  for (const leaf of all.filter(([path]) => path.startsWith(`${group}.`))) {
    const name = leaf[0].split(".").slice(1, -1).join(" ");
    found.set(name, [...(found.get(name) ?? []), leaf]);
  }
  return [...found];
}

const words = (name: string) => name.replace(/_/g, " ");
const shown = (value: unknown): string => (value === null || value === undefined ? "" : String(value));

/** What a text means for a setting that has `value`: an empty one restores the default. */
function typed(text: string, value: Leaf[1]): Leaf[1] {
  if (text.trim() === "") return null;
  if (typeof value === "boolean") return text === "true";
  return typeof value === "string" ? text : Number(text);
}

interface SettingProps {
  path: string;
  value: Leaf[1];
  text: string;
  initial: string;
  isFixed: boolean;
  set: (text: string) => void;
}

function Setting({ path, value, text, initial, isFixed, set }: SettingProps) {
  const unit = UNITS.find(([pattern]) => pattern.test(path))?.[1];
  const seconds = unit === "seconds" && Number(text) >= 60 ? duration(Number(text)) : "";
  const hint = [unit && (seconds ? `${unit} (${seconds})` : unit), initial && initial !== text && `default ${initial}`];
  return (
    <Field label={words(path.split(".").at(-1) ?? path)} hint={hint.filter(Boolean).join(", ")}>
      {(id) =>
        typeof value === "boolean" ? (
          <select id={id} value={text} disabled={isFixed} onChange={(event) => set(event.currentTarget.value)}>
            <option value="true">yes</option>
            <option value="false">no</option>
          </select>
        ) : (
          <input id={id} value={text} disabled={isFixed} onInput={(event) => set(event.currentTarget.value)} />
        )
      }
    </Field>
  );
}

/** How many memories the changed heats put on the other side of the cold threshold at once. */
function crossingsOf({ types }: Forecast): string {
  const more = types.reduce((sum, type) => sum + (type.cold[0] ?? 0) - (type.cold_as_configured[0] ?? 0), 0);
  if (more === 0) return "It would put no more memories and no fewer below the cold threshold.";
  const count = `${Math.abs(more)} ${more > 0 ? "more" : "fewer"} memories`;
  return `It would find ${count} below the cold threshold. Each crossing is an event, and may fire triggers.`;
}

/** What the changes would do, without doing it. */
function Preview({ body }: { body: Changes }) {
  const client = useClient();
  const settled = useSettled(body);
  const load = (signal: AbortSignal) => client.ask<Forecast>("/api/v1/settings/thermo/preview", settled, signal);
  const loaded = useLoad(load, settled, { keep: true });
  return (
    <section class="preview-box" aria-label="Preview" aria-live="polite">
      <h3>What the changes would do</h3>
      <Show loaded={loaded}>
        {(forecast) => (
          <>
            <p>
              The next tick would archive {count(forecast.archived)} memories, and {count(forecast.archived_as_configured)} as
              configured now.
            </p>
            <p>{crossingsOf(forecast)}</p>
            <Table
              label="Cold memories"
              head={["Type", "Memories", ...forecast.days.map((day) => (day === 0 ? "cold today" : `cold in ${day} days`))]}
            >
              {forecast.types
                .filter((type) => type.total > 0)
                .map((type) => (
                  <tr>
                    <td>{type.memory_type}</td>
                    <td>{count(type.total)}</td>
                    {type.cold.map((cold, at) => (
                      <td class={cold === type.cold_as_configured[at] ? "" : "changed"}>
                        {count(cold)}
                        {cold !== type.cold_as_configured[at] && ` (now ${count(type.cold_as_configured[at] ?? 0)})`}
                      </td>
                    ))}
                  </tr>
                ))}
            </Table>
          </>
        )}
      </Show>
    </section>
  );
}

interface RecallsProps {
  /** Writes a value into the form, where it is previewed. */
  suggest: (setting: string, value: number | string) => void;
  /** What the suggestions depend on. */
  changes: unknown;
}

function Recalls({ suggest, changes }: RecallsProps) {
  const session = useSession();
  const { client } = session;
  const load = (signal: AbortSignal) => client.get<RecallAnalytics>("/api/v1/analytics/recall", {}, signal).catch(closed);
  const loaded = useLoad(load, changes);
  return (
    <Card title="Recalls" wide>
      <Show loaded={loaded}>
        {(data) =>
          data === "closed" ? (
            <Empty>These counts are of all namespaces, so they need a key to which all are open.</Empty>
          ) : (
            <>
              <p>
                {count(data.searches)} searches{data.hit_rate !== null && `, ${percent(data.hit_rate)} with results`}.
              </p>
              <RecallTable types={data.stats} />
              <Suggestions analytics={data} canApply={may(session, "admin")} suggest={suggest} />
            </>
          )
        }
      </Show>
    </Card>
  );
}

function closed(error: unknown): "closed" {
  if (error instanceof RequestError && error.code === "namespace_forbidden") return "closed";
  throw error;
}

function RecallTable({ types }: { types: RecallAnalytics["stats"] }) {
  const heat = (value: number | null | undefined) => value?.toFixed(2) ?? "–";
  return (
    <Table label="Recalls by type" head={["Type", "Recalls", "Relevant", "Irrelevant", "Outdated", "Wrong", "Echoes", "Heat before", "Heat after"]}>
      {types.map((type) => (
        <tr>
          <td>{type.memory_type}</td>
          <td>{count(type.total_recalls)}</td>
          <td>{count(type.relevant_count)}</td>
          <td>{count(type.irrelevant_count)}</td>
          <td>{count(type.outdated_count)}</td>
          <td>{count(type.wrong_count)}</td>
          <td>{count(type.echo_count)}</td>
          <td>{heat(type.avg_heat_before)}</td>
          <td>{heat(type.avg_heat_after)}</td>
        </tr>
      ))}
    </Table>
  );
}

/** Suggestions; those that change a setting go into the form. */
function Suggestions(props: { analytics: RecallAnalytics; canApply: boolean; suggest: RecallsProps["suggest"] }) {
  const { suggestions, suggested_settings } = props.analytics;
  if (suggestions.length === 0) return null;
  return (
    <>
      <h3>Suggestions</h3>
      <ul>
        {suggestions.map((text) => {
          const change = suggested_settings.find(({ reason }) => reason === text);
          return (
            <li>
              {text}{" "}
              {props.canApply && change && (
                <button type="button" onClick={() => props.suggest(change.setting, change.value)}>
                  Preview {change.setting} = {change.value}
                </button>
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}
