// The event stream, read through `fetch`: an `EventSource` cannot send a key. It resumes after the
// last event that it read. All parts of a page share one stream.
import { RequestError } from "./errors";
import type { StreamItem } from "./types";

const PAUSE = 2_000;
/** Pause after a refusal that will last, as of a namespace. */
const LONG_PAUSE = 60_000;
/** Milliseconds without a byte after which the stream counts as broken: a node sends some each 15 s. */
const SILENCE_MAX = 40_000;

/** What opens a stream: a client. */
interface Source {
  stream: (path: string, lastId: string | null, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>;
}

export interface Reader {
  receive: (item: StreamItem) => void;
  connected?: (is: boolean) => void;
}

/** The stream of a key. It is open while it has a reader. */
export class Events {
  private readers = new Set<Reader>();
  private end: AbortController | null = null;
  private isConnected = false;

  constructor(private readonly source: Source) {}

  /** Adds a reader. Returns what removes it. */
  read(reader: Reader): () => void {
    this.readers.add(reader);
    reader.connected?.(this.isConnected);
    if (!this.end) {
      this.end = new AbortController();
      void this.follow(this.end.signal);
    }
    return () => {
      this.readers.delete(reader);
      if (this.readers.size > 0) return;
      this.end?.abort();
      this.end = null;
      this.isConnected = false;
    };
  }

  private set(isConnected: boolean) {
    this.isConnected = isConnected;
    for (const reader of this.readers) reader.connected?.(isConnected);
  }

  private async follow(signal: AbortSignal): Promise<void> {
    let last: string | null = null;
    while (!signal.aborted) {
      let pause = PAUSE;
      try {
        const body = await this.source.stream("/api/v1/events", last, signal);
        this.set(true);
        for await (const frame of frames(body)) {
          if (frame.id) last = frame.id;
          if (frame.data && frame.kind !== "ready" && frame.kind !== "checkpoint") {
            const item = JSON.parse(frame.data) as StreamItem;
            for (const reader of this.readers) reader.receive(item);
          }
        }
      } catch (error) {
        if (error instanceof RequestError) {
          // The key ended.
          if (error.status === 401) return;
          // The events after the last one are trimmed, or those of another cluster: it goes on with new ones.
          if (error.status === 410 || error.status === 409) last = null;
          if (error.status === 403 || error.status === 429) pause = LONG_PAUSE;
        }
      }
      if (signal.aborted) return;
      this.set(false);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

interface Frame {
  id: string;
  kind: string;
  data: string;
}

/** The frames of a stream of server-sent events. */
async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const silence = setTimeout(() => void reader.cancel(), SILENCE_MAX);
    const { value, done } = await reader.read().finally(() => clearTimeout(silence));
    if (done) return;
    text += decoder.decode(value, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      yield frameOf(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function frameOf(text: string): Frame {
  const frame: Frame = { id: "", kind: "", data: "" };
  for (const line of text.split("\n")) {
    if (line.startsWith("id:")) frame.id = line.slice(3).trim();
    if (line.startsWith("event:")) frame.kind = line.slice(6).trim();
    if (line.startsWith("data:")) frame.data += line.slice(5).trim();
  }
  return frame;
}
