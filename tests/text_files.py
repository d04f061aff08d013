"""Texts in files: a treebank, and documents with blank lines between them."""

import bz2
import gzip
import lzma

CONLLU = """# sent_id = 1
# text = Vámonos al mar.
1-2\tVámonos\t_\t_
1\tVamos\tir\tVERB
2\tnos\tnosotros\tPRON
3-4\tal\t_\t_
3\ta\ta\tADP
4\tel\tel\tDET
5\tmar\tmar\tNOUN
5.1\tghost\t_\t_
6\t.\t.\tPUNCT

1\tviết văn\t_\t_
2\tx\t_\t_
"""


def write(folder, documents, name="text.txt"):
    path = folder / name
    text = "\n\n".join("\n".join(paragraphs) for paragraphs in documents)
    raw = text.encode()
    path.write_bytes(
        {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}.get(path.suffix.lower(), bytes)(raw)
    )
    return path


def many(folder, files=3, documents=40):
    return [
        write(folder, [[f"file {f} document {d}", "second line"] for d in range(documents)], f"{f}.txt")
        for f in range(files)
    ]
