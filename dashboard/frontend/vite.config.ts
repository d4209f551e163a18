import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// Stable names: the page adds the source hash as a query, so that a new build is fetched at once.
export default defineConfig({
  plugins: [svelte()],
  base: "./",
  publicDir: false,
  build: {
    outDir: "../static/dashboard",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    target: "es2022",
    rollupOptions: {
      input: { app: "src/main.ts" },
      output: {
        entryFileNames: "[name].js",
        chunkFileNames: "[name].js",
        assetFileNames: "[name][extname]",
        inlineDynamicImports: true,
      },
    },
  },
});
