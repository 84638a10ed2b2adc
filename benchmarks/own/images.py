"""Share of changed pictures whose perceptual hash is within the distance of the original's.

    python -m benchmarks.own.images [--drawn 200] [--photos FOLDER] [--folder OUT]

Pictures are drawn: shapes and words on a background of soft colours. Photos are those of a folder,
such as `skimage/data` of the package scikit-image. Each is changed in several ways. Found: the
share whose hash is within the distance of the original's, and wrong: pairs of unrelated pictures
within it, of all pairs. Needs imagehash and pdqhash.
"""

import argparse
import io
import itertools
import statistics
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import imagehash
import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps

from benchmarks.lib import measuring
from benchmarks.lib.measuring import Figures

Hash = Callable[[Image.Image], int]
HASHES: dict[str, tuple[str, int, Hash]] = {
    "phash": ("`imagehash.phash`", 8, lambda image: int(str(imagehash.phash(image)), 16)),
    "dhash": ("`imagehash.dhash`", 8, lambda image: int(str(imagehash.dhash(image)), 16)),
    "pdq": ("PDQ", 31, lambda image: pdq(image)),
}
"""By name: the heading of its column, the distance, and the function."""


def pdq(image: Image.Image) -> int:
    # It has no wheel, and the tables of the page are made without it.
    import pdqhash

    bits, _ = pdqhash.compute(np.asarray(image.convert("RGB")))
    return int.from_bytes(np.packbits(bits).tobytes())


def compressed(image: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(file)


def cropped(image: Image.Image, share: float) -> Image.Image:
    wide, high = image.size
    return image.crop((int(wide * share), int(high * share), wide, high))


CHANGES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "half as wide": lambda image: image.resize((image.width // 2, image.height // 2)),
    "another shape, 4:3 to 1:1": lambda image: image.resize((256, 256)),
    "JPEG of quality 20": lambda image: compressed(image, 20),
    "brighter by a third": lambda image: ImageEnhance.Brightness(image).enhance(1.33),
    "grey": lambda image: image.convert("L").convert("RGB"),
    "blurred by 2 pixels": lambda image: image.filter(ImageFilter.GaussianBlur(2)),
    "3% cut off at two sides": lambda image: cropped(image, 0.03),
    "10% cut off at two sides": lambda image: cropped(image, 0.1),
    "a border of 5%": lambda image: ImageOps.expand(image, image.width // 20, "black"),
    "turned by 3 degrees": lambda image: image.rotate(3),
    "mirrored": ImageOps.mirror,
}


def drawn(seed: int) -> Image.Image:
    """Return a picture of 640 by 480 pixels."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize((640, 480), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    for _ in range(12):
        x, y = int(rng.integers(560)), int(rng.integers(400))
        box = (x, y, x + int(rng.integers(30, 240)), y + int(rng.integers(30, 200)))
        colour = tuple(rng.integers(0, 256, 3).tolist())
        (draw.ellipse, draw.rectangle)[int(rng.integers(2))](box, fill=colour)
    draw.text((40, 430), f"picture {seed}", fill="white", font_size=36)
    return image


def measure(images: list[Image.Image]) -> Figures:
    """Return the share found of each change, and the wrong pairs, of each hash."""
    found: Figures = {}
    for name, (_, most, of) in HASHES.items():
        codes = [of(image) for image in images]
        apart = [(a ^ b).bit_count() for a, b in itertools.combinations(codes, 2)]
        changes = {}
        for change, changed in CHANGES.items():
            away = [(code ^ of(changed(image))).bit_count()
                    for code, image in zip(codes, images, strict=True)]  # fmt: skip
            share = sum(each <= most for each in away) / len(away)
            changes[change] = {"found": share, "median": statistics.median(away)}
        wrong = sum(each <= most for each in apart)
        found[name] = {"changes": changes, "wrong": wrong, "pairs": len(apart)}
    return found


def tables(document: Figures) -> str:
    """Return a table of the shares."""
    results, corpora = document["results"], document["corpora"]
    columns = [(kind["name"], name) for kind in corpora for name in HASHES]
    head = [f"{HASHES[name][0]}, {HASHES[name][1]} bits, {kind}" for kind, name in columns]
    lines = [f"| change | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for change in CHANGES:
        cells = []
        for kind, name in columns:
            each = results[kind][name]["changes"][change]
            cells.append(f"{each['found']:.2f} ({each['median']:g})")
        lines.append(f"| {change} | {' | '.join(cells)} |")
    wrong = [f"{results[kind][name]['wrong']} of {results[kind][name]['pairs']:,}"
             for kind, name in columns]  # fmt: skip
    lines.append(f"| wrong pairs | {' | '.join(wrong)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drawn", type=int, default=200)
    parser.add_argument("--photos", type=Path, help="a folder of pictures")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    images = {"drawn": [drawn(seed) for seed in range(options.drawn)]}
    if options.photos:
        paths = [path for path in sorted(options.photos.iterdir())
                 if path.suffix in (".png", ".jpg")]  # fmt: skip
        images["photos"] = [Image.open(path).convert("RGB") for path in paths]
    results = {name: measure(some) for name, some in images.items()}
    corpora = [{"name": name, "pictures": len(some)} for name, some in images.items()]
    versions = {name: version(name) for name in ("imagehash", "pdqhash", "pillow")}
    print(measuring.save("images", results, corpora, versions, options.folder))


if __name__ == "__main__":
    main()
