"""Files: reading, writing, patterns, copies, and the errors of all of them."""


def said(act):
    """What an act gives, or how it fails."""
    try:
        return act()
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)


def program(tf, check):
    import os

    folder = os.environ["DIFFERENTIAL_DIRECTORY"]
    files = tf.gfile

    def path(*parts):
        return os.path.join(folder, *parts)

    def ask(name, act):
        value = said(act)
        check(name, plain(value, folder))

    ask("exists", lambda: files.Exists(path("x")))
    ask("mkdir", lambda: files.MkDir(path("a")))
    ask("mkdir twice", lambda: files.MkDir(path("a")))
    ask("mkdir deep", lambda: files.MkDir(path("q", "r")))
    ask("makedirs", lambda: files.MakeDirs(path("b", "c", "d")))
    with files.GFile(path("f.txt"), "w") as file:
        file.write("hello\nworld\n")
        file.write(u"\xe9")
    for mode in ("r", "rb"):
        ask("read " + mode, lambda: files.GFile(path("f.txt"), mode).read())
        ask("lines " + mode, lambda: files.GFile(path("f.txt"), mode).readlines())
    file = files.Open(path("f.txt"))
    ask("parts", lambda: (file.read(2), file.tell(), file.seek(6), file.readline(), file.size(), file.mode))
    ask("whence", lambda: file.seek(0, 9))
    ask("from the end", lambda: (file.seek(-2, 2), file.read()))
    ask("write a reader", lambda: file.write("x"))
    ask("read a writer", lambda: files.GFile(path("f3"), "w").read())
    ask("no file", lambda: files.GFile(path("none")).read())
    ask("no folder", lambda: files.GFile(path("none", "x"), "w").write("a"))
    ask("a folder", lambda: files.GFile(folder).read())
    ask("a mode", lambda: files.GFile(path("f"), "zz").read())
    ask("list", lambda: sorted(files.ListDirectory(folder)))
    ask("list nothing", lambda: files.ListDirectory(path("none")))
    ask("kinds", lambda: (files.IsDirectory(folder), files.IsDirectory(path("f.txt")), files.IsDirectory(path("none"))))
    ask("glob", lambda: sorted(files.Glob(path("*"))))
    ask("globs", lambda: sorted(files.Glob([path("f*"), path("a*")])))
    ask("glob nothing", lambda: files.Glob(path("none*")))
    ask("copy", lambda: files.Copy(path("f.txt"), path("g.txt")))
    ask("copy over", lambda: files.Copy(path("f.txt"), path("g.txt")))
    ask("copy over it", lambda: files.Copy(path("f.txt"), path("g.txt"), overwrite=True))
    ask("copy nothing", lambda: files.Copy(path("none"), path("z")))
    ask("rename", lambda: files.Rename(path("g.txt"), path("h.txt")))
    ask("rename over", lambda: files.Rename(path("f.txt"), path("h.txt")))
    ask("rename nothing", lambda: files.Rename(path("none"), path("h2.txt")))
    ask("remove", lambda: files.Remove(path("h.txt")))
    ask("remove nothing", lambda: files.Remove(path("h.txt")))
    ask("remove a folder", lambda: files.Remove(path("a")))
    ask("rmtree", lambda: files.DeleteRecursively(path("b")))
    ask("rmtree nothing", lambda: files.DeleteRecursively(path("b")))
    ask("stat", lambda: (files.Stat(folder).is_directory, files.Stat(path("f.txt")).length))
    ask("stat nothing", lambda: files.Stat(path("none")))
    files.MakeDirs(path("w", "x", "y"))
    ask("walk", lambda: list(files.Walk(path("w"))))
    ask("walk up", lambda: list(files.Walk(path("w"), in_order=False)))
    ask("address", lambda: files.Exists("file://" + folder))
    ask("scheme", lambda: files.GFile("foo://x/y").read())
    ask("not a name", lambda: files.Exists(None))
    ask("newer names", lambda: (tf.io.gfile.exists(folder), tf.io.gfile.isdir(folder), sorted(tf.io.gfile.listdir(path("w")))))


def plain(value, folder):
    if isinstance(value, str):
        return value.replace(folder, "FOLDER")
    if isinstance(value, (list, tuple)):
        return [plain(item, folder) for item in value]
    return value
