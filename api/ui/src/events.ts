// The event stream, read through `fetch`: an `EventSource` cannot send a key. It resumes after the
// last event that it read.
import { type Client, RequestError } from "./client";
import type { StreamItem } from "./types";

const PAUSE = 2_000;

/** Calls `receive` for each new event until `signal` ends it. `follow` gets whether it is connected. */
export async function follow(
  client: Client,
  receive: (item: StreamItem) => void,
  connected: (is: boolean) => void,
  signal: AbortSignal,
): Promise<void> {
  let last: string | null = null;
  while (!signal.aborted) {
    try {
      const body = await client.stream("/api/v1/events", last, signal);
      connected(true);
      for await (const frame of frames(body)) {
        if (frame.id) last = frame.id;
        if (frame.data && frame.kind !== "ready" && frame.kind !== "checkpoint") {
          receive(JSON.parse(frame.data) as StreamItem);
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RequestError && error.status >= 400 && error.status < 500) {
        // The events after the last one are trimmed: it continues with new ones.
        if (error.status !== 410) return connected(false);
        last = null;
      }
    }
    connected(false);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

interface Frame {
  id: string;
  kind: string;
  data: string;
}

/** The frames of a stream of server-sent events. */
async function* frames(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const frame: Frame = { id: "", kind: "", data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        if (line.startsWith("id:")) frame.id = line.slice(3).trim();
        if (line.startsWith("event:")) frame.kind = line.slice(6).trim();
        if (line.startsWith("data:")) frame.data += line.slice(5).trim();
      }
      text = text.slice(end + 2);
      yield frame;
    }
  }
}
