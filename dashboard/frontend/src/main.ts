import { theme } from "./lib/theme.svelte";
import "./app.css";
import { mount } from "svelte";
import App from "./App.svelte";
import { router } from "./lib/router.svelte";
import { store } from "./lib/store.svelte";

void theme;
const target = document.getElementById("app");
if (!target) throw new Error("The page has no #app element");
router.start();
store.start();
mount(App, { target });
