import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Page } from "../state/page";

const PageContext = createContext<Page | null>(null);

export const PageProvider = PageContext.Provider;

/** The page that this view is part of. */
export function usePage(): Page {
  const page = useContext(PageContext);
  if (page === null) throw new Error("a view stands outside of its page");
  return page;
}
