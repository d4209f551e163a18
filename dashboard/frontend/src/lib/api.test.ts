import { afterEach, describe, expect, it, vi } from "vitest";
import { act, errorText, fetchOperatorProblems, fetchOperatorRows, fetchResults, fetchSamples, fetchSnapshot, session } from "./api";

describe("errorText", () => {
  it("joins what the server says", () => {
    const body = { errors: [{ path: "reason", message: "say why." }, { path: "", message: "It is stopped." }] };
    expect(errorText(body, 400)).toBe("reason: say why. It is stopped.");
  });
  it("has a sentence for an answer that says nothing", () => {
    expect(errorText(null, 404)).toContain("no longer exists");
    expect(errorText("<html>", 502)).toBe("The server answered 502.");
    expect(errorText({ errors: [{ path: "", message: "Authentication credentials were not provided." }] }, 401)).toContain("signed in again, send it again");
  });
});

describe("a connection that gives no answer", () => {
  afterEach(() => void vi.unstubAllGlobals());

  it.each([
    ["a question", () => fetchSnapshot(), "The server gave no answer within 60 s."],
    ["an action", () => act("topologies/posts/pause/", {}, "key"), "The server gave no answer within 60 s. It may have done it all the same: look before you ask again."],
  ])("is given up: %s", async (_, ask, told) => {
    const deadline = new AbortController();
    vi.spyOn(AbortSignal, "timeout").mockReturnValueOnce(deadline.signal);
    vi.stubGlobal("document", { cookie: "csrftoken=x" });
    vi.stubGlobal("fetch", (_: string, init: RequestInit) => new Promise((_resolve, reject) => init.signal?.addEventListener("abort", () => reject(init.signal?.reason))));
    const answered = ask();
    deadline.abort(new DOMException("", "TimeoutError"));
    await expect(answered).rejects.toThrow(told);
  }, 500);
});

describe("fetchSamples", () => {
  afterEach(() => void vi.unstubAllGlobals());

  it("reads page after page until there is none", async () => {
    const rows = Array.from({ length: 2_300 }, (_, i) => ({ at: new Date(i * 1000).toISOString() }));
    vi.stubGlobal("fetch", async (address: string) => {
      const asked = new URL(address, "http://here").searchParams;
      const [offset, limit] = [Number(asked.get("offset")), Number(asked.get("limit"))];
      const next = offset + limit < rows.length ? "http://behind.a.proxy/next" : null;
      return new Response(JSON.stringify({ count: rows.length, next, results: rows.slice(offset, offset + limit) }));
    });
    expect(await fetchSamples("hashtags", 0, 2_300)).toEqual(rows);
  });
});

describe("rows", () => {
  afterEach(() => void vi.unstubAllGlobals());

  it.each([
    ["results", () => fetchResults("posts", "O3[0]", "", 50, 0)],
    ["the last rows of an operator", () => fetchOperatorRows("posts", "O3", 0, 50)],
    ["rows that an operator fails on", () => fetchOperatorProblems("posts", "O3")],
  ])("have whole numbers of any size as they are: %s", async (_, ask) => {
    vi.stubGlobal("fetch", async () => new Response('{"rows": [{"id": 1350150750966603777, "least": -9223372036854775808, "count": 12, "share": 0.1234567890123456789, "far": 1e300, "text": "say \\"9007199254740993\\" 9007199254740993"}]}'));
    expect(await ask()).toEqual({ rows: [{ id: "1350150750966603777", least: "-9223372036854775808", count: 12, share: 0.12345678901234568, far: 1e300, text: 'say "9007199254740993" 9007199254740993' }] });
  });
});

describe("the end of the session", () => {
  const ended = session.ended;
  afterEach(() => {
    session.ended = ended;
    vi.unstubAllGlobals();
  });

  it("is told once a question is answered with 401, and not by going to another page", async () => {
    session.ended = vi.fn();
    vi.stubGlobal("location", { assign: vi.fn() });
    vi.stubGlobal("fetch", async () => new Response('{"errors": [{"path": "", "message": "Sign in."}]}', { status: 401 }));
    await expect(fetchSamples("hashtags", 0, 1)).rejects.toThrow("Your session had ended");
    expect([vi.mocked(session.ended).mock.calls.length, vi.mocked(location.assign).mock.calls.length]).toEqual([1, 0]);
  });
});
