// The heat of a memory at other times, by the formula of docs/heat.md.
import type { Memory, Settings } from "./types";

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

/** The heat `seconds` after the present. */
export function heatAfter(memory: Memory, settings: Settings, seconds: number): number {
  const half = halfLife(memory, settings);
  if (half === null) return memory.heat;
  const floor = Math.min(floorOf(memory, settings), memory.heat);
  return Math.max(floor, memory.heat * 2 ** (-seconds / half));
}

/** The heat `seconds` before the present, if nothing warmed the memory since. At its floor, the past is unknown. */
export function heatBefore(memory: Memory, settings: Settings, seconds: number): number | null {
  const half = halfLife(memory, settings);
  if (half === null) return memory.heat;
  if (memory.heat <= floorOf(memory, settings)) return null;
  const heat = memory.heat * 2 ** (seconds / half);
  return heat > 1 ? null : heat;
}
