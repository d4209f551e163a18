import { expect, it } from "vitest";
import { parse } from "./router.svelte";

it.each([
  ["/", { name: "fleet" }],
  ["/topologies/a%25/", { name: "topology", topology: "a%" }],
  ["/topologies/posts/queries/O3%5B0%5D/", { name: "query", topology: "posts", query: "O3[0]" }],
  ["/topologies/posts/queries/O3%5B0%5", { name: "missing", path: "/topologies/posts/queries/O3%5B0%5" }],
])("the address %s is a page", (path, page) => expect(parse(path)).toEqual(page));
