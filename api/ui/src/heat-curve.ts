// The heat of a memory at other times, by the formula of docs/heat.md.
import type { AnchoredMemory, Memory, Settings } from "./types";

/** Seconds after which its heat is half; null if it does not cool. */
export function halfLife(memory: Memory, settings: Settings): number | null {
  if (memory.is_pinned || memory.tier === "cold" || memory.decay_class === "permanent") return null;
  const profile = settings.decay_profiles?.[memory.memory_type];
  const factor = settings.decay_classes?.[memory.decay_class as "normal" | "volatile" | "persistent"] ?? 1;
  return (profile?.half_life ?? 86_400) * factor * memory.stability;
}

/** Cooling stops there. */
export function floorOf(memory: Memory, settings: Settings): number {
  return Math.max(memory.min_heat, settings.decay_profiles?.[memory.memory_type]?.floor ?? 0);
}

/** Its heat at a time after its anchor, in milliseconds since 1970. */
export function heatAt(memory: AnchoredMemory, settings: Settings, at: number): number {
  const { anchor } = memory;
  const half = halfLife(memory, settings);
  if (half === null) return anchor.heat;
  const floor = Math.min(floorOf(memory, settings), anchor.heat);
  const age = (at - Date.parse(anchor.at)) / 1000;
  return Math.max(floor, anchor.heat * 2 ** (-age / half));
}

