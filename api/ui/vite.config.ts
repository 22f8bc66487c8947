// The bundle of the dashboard: one script, one style sheet and the page that loads them.
import { defineConfig } from "vite";

export default defineConfig({
  base: "/dashboard/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    // Data URLs would need a wider Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: false,
    chunkSizeWarningLimit: 300,
    // Packages contain it.
    license: { fileName: "licences.md" },
  },
});
