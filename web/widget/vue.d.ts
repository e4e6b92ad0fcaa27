/** Types of the elements in templates of Vue: `"types": ["sottovoce-widget/vue"]` in tsconfig.json. */

import type { HTMLAttributes, PublicProps } from "vue";
import type { ElementAttributes, ElementEvents } from "./dist/widget.js";

type Element<Name extends keyof ElementAttributes> = new () => {
  $props: HTMLAttributes & PublicProps & ElementAttributes[Name];
  $emit: (name: ElementEvents[Name], event: CustomEvent) => void;
};

declare module "vue" {
  interface GlobalComponents {
    "sottovoce-consent": Element<"sottovoce-consent">;
    "sottovoce-list": Element<"sottovoce-list">;
    "sottovoce-similar": Element<"sottovoce-similar">;
  }
}
