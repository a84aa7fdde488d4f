package anabranch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's file system of local disks, but for one thing: it sets the rights of a file by a call of the operating
 * system. Hadoop starts the program chmod, several times for each file that it creates.
 */
public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission rights) throws IOException {
            try {
                java.nio.file.Path file = pathToFile(path).toPath();
                Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(rights.toString()));
            } catch (IllegalArgumentException error) { // a sticky bit, or a name that this locale can't express
                super.setPermission(path, rights);
            } catch (UnsupportedOperationException error) { // another operating system
                super.setPermission(path, rights);
            }
        }
    }
}
