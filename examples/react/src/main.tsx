import { createRoot } from "react-dom/client";
import { Article } from "./Article";

createRoot(document.getElementById("shop") as HTMLElement).render(<Article id="1" />);
