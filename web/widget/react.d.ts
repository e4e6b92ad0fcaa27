/** Types of the elements in JSX: `"types": ["sottovoce-widget/react"]` in tsconfig.json. */

import type { DetailedHTMLProps, HTMLAttributes } from "react";
import type { ElementAttributes, ElementEvents } from "./dist/widget.js";

type Props<Name extends keyof ElementAttributes> = ElementAttributes[Name] & {
  // React passes the children of a `slot`, and calls "onshown" for the event "shown".
  [Event in ElementEvents[Name] as `on${Event}`]?: (event: CustomEvent) => void;
} & DetailedHTMLProps<HTMLAttributes<HTMLElement>, HTMLElement>;

declare module "react" {
  namespace JSX {
    interface IntrinsicElements {
      "sottovoce-consent": Props<"sottovoce-consent">;
      "sottovoce-list": Props<"sottovoce-list">;
      "sottovoce-similar": Props<"sottovoce-similar">;
    }
  }
}
