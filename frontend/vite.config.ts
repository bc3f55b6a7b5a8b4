import { defineConfig } from "vite";

// One script and one style sheet, which show/html.py puts into one file. Names carry no hash, so that a rebuild can be compared.
export default defineConfig({
  build: {
    outDir: "../src/shapescope/show/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/main.tsx",
      output: { format: "iife", entryFileNames: "page.js", assetFileNames: "page[extname]" },
    },
  },
});
