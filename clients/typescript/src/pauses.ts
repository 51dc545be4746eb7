const FIRST_MS = 250;
const LONGEST_MS = 10_000;
const SPREAD = 0.25;

/**
 * How long to wait before the next try, in milliseconds. `random` is in [0, 1): clients that lost their connection in the
 * same moment must not come back in the same moment.
 */
export function pauseBefore(failures: number, random: number, retryAfterSeconds?: number): number {
  if (retryAfterSeconds !== undefined) {
    return retryAfterSeconds * 1000 * (1 + SPREAD * random);
  }
  return Math.min(LONGEST_MS, FIRST_MS * 2 ** (failures - 1)) * (0.5 + 0.5 * random);
}

/** Resolves after `milliseconds`. Rejects with the signal's reason once it is aborted. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    function stop(): void {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener("abort", stop, { once: true });
  });
}
