// One crosshair for all charts: whoever is pointed at says where, in x; the others follow.

export interface Follower {
  /** Moves the crosshair to x, or hides it. */
  follow(x: number | null): void;
}

export class Crosshair {
  private readonly followers = new Set<Follower>();
  /** Where it stands. A chart that is drawn anew puts it there again: new data move it nowhere. */
  x: number | null = null;

  join(follower: Follower): () => void {
    this.followers.add(follower);
    return () => this.followers.delete(follower);
  }

  point(x: number | null, from: Follower): void {
    this.x = x;
    for (const follower of this.followers) if (follower !== from) follower.follow(x);
  }
}
