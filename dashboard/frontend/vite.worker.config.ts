import { defineConfig } from "vite";

// The worker that places the boxes of a graph, beside what `vite.config.ts` has built: a page loads it only if it
// shows one.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../static/dashboard",
    emptyOutDir: false,
    target: "es2022",
    minify: "terser",
    terserOptions: { compress: { passes: 2 }, format: { comments: false } },
    rollupOptions: {
      input: { layout: "src/layoutWorker.ts" },
      output: { format: "iife", entryFileNames: "[name].js" },
    },
  },
});
