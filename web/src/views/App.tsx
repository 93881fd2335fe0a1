import { Banners } from "./Banner";
import { Config } from "./Config";
import { usePage } from "./context";
import { Epochs } from "./Epochs";
import { Events } from "./Events";
import { EventStrip } from "./EventStrip";
import { Header } from "./Header";
import { Model } from "./Model";
import { Overview } from "./Overview";
import { Ranks } from "./Ranks";
import { Resources } from "./Resources";
import { Tabs } from "./Tabs";
import { Vitals } from "./Vitals";

/** The whole page. */
export function App() {
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the charts
      </a>
      <div class="top">
        <Header />
        <Vitals />
        <Banners />
        <EventStrip />
        <Tabs />
      </div>
      <main id="main" tabIndex={-1}>
        <Part />
      </main>
    </>
  );
}

/** The fragment holds the view, so the link must not follow its own. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Part() {
  switch (usePage().view.value.tab) {
    case "overview":
      return <Overview />;
    case "ranks":
      return <Ranks />;
    case "resources":
      return <Resources />;
    case "model":
      return <Model />;
    case "epochs":
      return <Epochs />;
    case "config":
      return <Config />;
    case "events":
      return <Events />;
  }
}
