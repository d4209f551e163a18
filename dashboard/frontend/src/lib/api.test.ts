import { describe, expect, it } from "vitest";
import { errorText } from "./api";

describe("errorText", () => {
  it("joins what the server says", () => {
    const body = { errors: [{ path: "reason", message: "say why." }, { path: "", message: "It is stopped." }] };
    expect(errorText(body, 400)).toBe("reason: say why. It is stopped.");
  });
  it("has a sentence for an answer that says nothing", () => {
    expect(errorText(null, 404)).toContain("no longer exists");
    expect(errorText("<html>", 502)).toBe("The server answered 502.");
  });
});
