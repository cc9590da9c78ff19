// Whole files: read, and replaced in one step.
//
//   MESHWORK_RETURN_IF_ERROR(WriteFileAtomically("run/loss.csv", text));   // all of it, or nothing changes
//   MESHWORK_ASSIGN_OR_RETURN(std::string text, ReadFile("run/loss.csv"));
//
// Thread safety: every function may be called from any thread; of several concurrent writers of one
// path, the last to finish wins, and readers see one of the versions, never a mixture.
// Errors carry the path, the system's message, and a code that fits (NotFound, PermissionDenied, …).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwork {

class Sha256;  // base/io/sha256.h

// The error that the system did not read the file. `error`: its errno.
absl::Status CannotRead(const std::string& path, int error);

// The bytes of a file (or pipe), up to its end. Errors: it does not exist, is a directory, is a
// pipe or a device and gives more than 256 MiB, ….
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Checks that WriteFileAtomically could write `path` now, by making an empty file in the same directory and
// removing it. Call it before long work whose result would be lost otherwise. Errors: those of
// WriteFileAtomically; `path` is a directory.
absl::Status CheckWritable(const std::string& path);

// Writes PATH.tmp-<process>-<n>, flushes it to the disk, renames it to `path` and flushes the directory. So at
// every moment `path` is the old file or the new one, whole, and after an OK it is the new one, also if the
// power fails. (A directory that this process may not read cannot be flushed.) On error the temporary is
// removed. A symbolic link at `path` is followed: it stays, and the file that it names is replaced, or made
// where there is none. The new file has the permissions of the replaced file, its group and, as far as the
// system lets this process change owners, its owner. If the group cannot be kept, the new group gets no more
// permissions than everybody has. Hard links, ACLs and extended attributes stay with the old file. If no file
// is replaced, the umask sets the permissions.
// Errors: the directory does not exist or is not writable, no room, links that lead in a circle, …; the
// directory cannot be flushed, and then the file has been replaced.
absl::Status WriteFileAtomically(const std::string& path, std::string_view contents);
// The same for contents that lie in pieces, to be written one after the other. `hash`, if it is not null, is
// updated with them by a thread of its own while they are written; after an error it is of no use.
absl::Status WriteFileAtomically(const std::string& path, std::span<const std::string_view> pieces,
                                 Sha256* hash = nullptr);

// The same for contents that are made as they are written: calls `next` for one piece after the other, until a piece is
// empty. A piece must stay as it is until the next call. Errors, besides: those of `next`; nothing was changed then.
using NextPiece = std::function<absl::StatusOr<std::string_view>()>;
absl::Status WritePiecesAtomically(const std::string& path, const NextPiece& next, Sha256* hash = nullptr);

// Makes a folder, and those above it, where they are missing, and flushes the folders that they are in. Errors:
// something else has the name; those of the system.
absl::Status MakeFolders(const std::string& path);

// Flushes the names in a folder to the disk. (One that this process may not read cannot be flushed: OK.) Errors: those
// of the system.
absl::Status FlushFolder(const std::string& path);

// Gives the folder `from` the name `to`, in the same directory, and flushes the directory. Errors: ALREADY_EXISTS,
// there is a `to`; those of the system; the directory cannot be flushed, and then the folder has its new name.
absl::Status RenameFolder(const std::string& from, const std::string& to);
// Two folders of one directory swap their names, at one moment; flushes the directory. Errors: UNIMPLEMENTED, the file
// system cannot do that (NFS); those of RenameFolder.
absl::Status ExchangeFolders(const std::string& a, const std::string& b);

// A file open for reading at any position. Const functions may be called concurrently.
class InputFile {
 public:
  // Errors: the file does not exist, may not be read, or is a directory, a pipe or a device.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // bytes, when it was opened
  // Fills `bytes` from `offset` on. Errors: the file ends before `bytes` is full; the disk fails.
  absl::Status ReadAt(int64_t offset, std::span<std::byte> bytes) const;

 private:
  InputFile(std::string path, int fd, int64_t size) : path_(std::move(path)), fd_(fd), size_(size) {}

  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace meshwork
