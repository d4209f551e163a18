import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// Modules have the hash of their content in their names, because they import each other: an address with a query
// beside one without would be two modules. `scripts/stamp.mjs` records the name of the first one. To other files the
// page adds the hash of the sources as a query.
export default defineConfig({
  plugins: [svelte()],
  // Tests run outside a browser. Those of effects need what runs in one, not what renders pages on a server.
  resolve: process.env["VITEST"] ? { conditions: ["browser"] } : {},
  test: { testTransformMode: { web: ["**/*.svelte.test.ts"] }, server: { deps: { inline: ["svelte"] } } },
  base: "./",
  publicDir: false,
  build: {
    outDir: "../static/dashboard",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    target: "es2022",
    minify: "terser",
    terserOptions: { compress: { passes: 2 }, format: { comments: false } },
    rollupOptions: {
      input: { app: "src/main.ts" },
      output: {
        // Each module is a request, with a kilobyte of headers.
        experimentalMinChunkSize: 3_000,
        entryFileNames: "[name]-[hash].js",
        chunkFileNames: "[name]-[hash].js",
        assetFileNames: (asset) => (asset.names[0] === "style.css" ? "app.css" : "[name][extname]"),
      },
    },
  },
});
