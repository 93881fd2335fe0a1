// Shapes, so that nothing is told by colour alone.

const PATHS = {
  waiting: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Zm0 2a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7Z",
  running: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Z",
  alive: "M8 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8Z",
  finished: "M6.6 12.2 2.6 8.2l1.5-1.5 2.5 2.5 5.3-5.4 1.5 1.5-6.8 6.9Z",
  failed: "m4.2 2.8 3.8 3.8 3.8-3.8 1.4 1.4L9.4 8l3.8 3.8-1.4 1.4L8 9.4l-3.8 3.8-1.4-1.4L6.6 8 2.8 4.2Z",
  terminated: "M3.5 3.5h9v9h-9Z",
  disconnected: "M2.2 3.6 3.6 2.2l10.2 10.2-1.4 1.4-2.6-2.6-1.7 1.7a3.6 3.6 0 0 1-5-5l1.7-1.7-2.6-2.7Zm8.5 3.6 1-1a1.6 1.6 0 0 0-2.3-2.2l-1 1L7 3.6l1-1a3.6 3.6 0 0 1 5 5l-1 1Z",
  late: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Zm-.9 2.5h1.8v3.2l2.2 2.2-1.2 1.3-2.8-2.8Z",
  lost: "M8 1.8 15 14H1L8 1.8Zm-1 4.4.3 4h1.4l.3-4Zm.1 5v1.5h1.8v-1.5Z",
  warn: "M8 1.8 15 14H1L8 1.8Zm-1 4.4.3 4h1.4l.3-4Zm.1 5v1.5h1.8v-1.5Z",
  critical: "M5.2 1.5h5.6l3.7 3.7v5.6l-3.7 3.7H5.2l-3.7-3.7V5.2ZM7 4.4l.3 4.6h1.4L9 4.4Zm.1 5.7v1.6h1.8v-1.6Z",
  info: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Zm-.9 2.4h1.8v1.7H7.1Zm0 2.8h1.8v4.4H7.1Z",
  chevron: "m6 3.5 4.5 4.5L6 12.5 4.6 11l3-3-3-3Z",
  pin: "m8 1.8 1.9 4 4.3.6-3.1 3 .7 4.4L8 11.7l-3.8 2.1.7-4.4-3.1-3 4.3-.6Z",
  search: "M7 2a5 5 0 1 0 2.9 9l3 3 1.3-1.3-3-3A5 5 0 0 0 7 2Zm0 1.8a3.2 3.2 0 1 1 0 6.4 3.2 3.2 0 0 1 0-6.4Z",
  down: "M7 2h2v6.2l2.3-2.3 1.3 1.4L8 12 3.4 7.3l1.3-1.4L7 8.2ZM3 13h10v1.6H3Z",
  copy: "M5 2h8v9h-2V4H5Zm-2 3h7v9H3Z",
  dark: "M9.6 2A6.2 6.2 0 1 0 14 9.9 5 5 0 0 1 9.6 2Z",
  light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6ZM7.2 1h1.6v2.4H7.2Zm0 11.6h1.6V15H7.2ZM1 7.2h2.4v1.6H1Zm11.6 0H15v1.6h-2.4ZM2.5 3.6l1.1-1.1 1.7 1.7-1.1 1.1Zm8.2 8.2 1.1-1.1 1.7 1.7-1.1 1.1ZM3.6 13.5l-1.1-1.1 1.7-1.7 1.1 1.1Zm8.2-8.2-1.1-1.1 1.7-1.7 1.1 1.1Z",
  system: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2Zm0 1.8v8.4a4.2 4.2 0 0 1 0-8.4Z",
  link: "M5 2.5 1.8 6h2.3v7.2h1.8V6h2.3ZM11 13.5l3.2-3.5h-2.3V2.8h-1.8V10H7.8Z",
  enlarge: "M9 2h5v5h-1.8V5.1L9.6 7.7 8.3 6.4l2.6-2.6H9ZM2 9h1.8v1.9l2.6-2.6 1.3 1.3-2.6 2.6H7V14H2Z",
  close: "m4.4 3.2 3.6 3.6 3.6-3.6 1.2 1.2L9.2 8l3.6 3.6-1.2 1.2L8 9.2l-3.6 3.6-1.2-1.2L6.8 8 3.2 4.4Z",
} as const;

export type IconName = keyof typeof PATHS;

/** Decorative: what it says must also stand in words, visible or named. */
export function Icon({ name, class: extra }: { name: IconName; class?: string }) {
  return (
    <svg class={`icon ${extra ?? ""}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} fill-rule="evenodd" />
    </svg>
  );
}

/** The path of a shape, for the browser tab's icon. */
export function iconPath(name: IconName): string {
  return PATHS[name];
}
